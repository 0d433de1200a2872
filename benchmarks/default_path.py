"""What a user gets without choosing anything, beside what they would use instead. Each row is kept as it is done.

python benchmarks/default_path.py sets                 scikit-learn's classifiers, nine sets; auto is in the study auto
python benchmarks/default_path.py shapes               auto, logistic, forest on six made tables
python benchmarks/default_path.py defaults             every method with default settings, nine sets, two seeds
python benchmarks/default_path.py sizes                mean size of predicted sets, every method
python benchmarks/default_path.py speed                seconds as ratios to scikit-learn, same run
python benchmarks/default_path.py netflix              `onepos fit` and `evaluate` on the Netflix table, cold start
python benchmarks/default_path.py netflix --embed DIR  … with embedded text; vectors are cached by a fit before
python benchmarks/default_path.py page                 docs/instead.md from the rows
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

import onepos
from onepos.datasets import make_single_positive, split
from onepos.metrics import average_precision
from onepos_studies.datasets import load_dataset

HERE = Path(__file__).resolve().parent
ROWS = HERE / "default_path.jsonl"
PAGE = HERE.parent / "docs" / "instead.md"
SETS = ("CAL500", "image", "scene", "yeast", "corel5k", "rcv1-s1", "tmc2007", "corel16k-s1", "delicious")
#: Gradient boosting grows one tree per label and round: with more labels, or more columns, it takes hours.
BOOSTED = ("image", "scene", "yeast")
AUTO = HERE.parent / "studies" / "rows" / "auto.parquet"


def netflix_path():
    """Where the table is: $ONEPOS_TABLES, else ../shared/tables."""
    folder = Path(os.environ.get("ONEPOS_TABLES", HERE.parents[1] / "shared" / "tables"))
    path = folder / "netflix_titles.csv"
    if not path.is_file():
        raise SystemExit(f"no {path}: set ONEPOS_TABLES to the folder of netflix_titles.csv.")
    return path


def known():
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []


def record(section, key, compute, *args, **params):
    """Run ``compute(*args, **params)`` unless a row of this section has the key; it returns more fields of the row."""
    for row in known():
        if row["section"] == section and all(row.get(name) == value for name, value in key.items()):
            return row
    row = {"section": section, **key, **compute(*args, **params)}
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row, flush=True)
    return row


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def trial_of(name, trial):
    """Training and validation rows of the study's trial, one positive each, and its test rows."""
    data = load_dataset(name)
    parts = split(data.X, data.Y, random_state=trial)
    observed = make_single_positive(parts.Y_train, random_state=1000 + trial)
    observed_val = make_single_positive(parts.Y_val, random_state=2000 + trial)
    stack = sparse.vstack if sparse.issparse(parts.X_train) else np.concatenate
    X = stack([parts.X_train, parts.X_val])
    return _csr(X), np.concatenate([dense(observed), dense(observed_val)]), _csr(parts.X_test), dense(parts.Y_test)


def _csr(X):
    return sparse.csr_matrix(X) if sparse.issparse(X) else X


#: scikit-learn's classifiers on the observed label, as a user would write them.
INSTEAD = {
    "LogisticRegression": lambda: LogisticRegression(max_iter=200),
    "ExtraTreesClassifier": lambda: ExtraTreesClassifier(500, min_samples_leaf=2, n_jobs=-1, random_state=0),
    "HistGradientBoostingClassifier": lambda: HistGradientBoostingClassifier(random_state=0),
}


def fit_instead(name, X, observed, X_test, Y):
    """Average precision on test rows, and seconds."""
    rows = np.flatnonzero((observed > 0).any(axis=1))
    if name == "HistGradientBoostingClassifier":
        X, X_test = dense(X), dense(X_test)
    if name == "LogisticRegression" and not sparse.issparse(X):
        mean, deviation = X.mean(axis=0), X.std(axis=0) + 1e-9
        X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    started = time.perf_counter()
    model = INSTEAD[name]().fit(X[rows], observed[rows].argmax(axis=1))
    seconds = time.perf_counter() - started
    scores = 1e-6 * np.tile((observed > 0).mean(axis=0), (X_test.shape[0], 1))  # ties by frequency
    scores[:, model.classes_] += model.predict_proba(X_test)
    return {"ap": average_precision(Y, scores), "seconds": seconds}


def run_sets(trials, names):
    for trial in range(trials):
        for name in names:
            parts = trial_of(name, trial)
            for other in INSTEAD:
                if other != "HistGradientBoostingClassifier" or name in BOOSTED:
                    record("sets", {"data": name, "trial": trial, "what": other}, fit_instead, other, *parts)


def fit_ours(key, X, observed, X_test, Y, **params):
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = onepos.make_classifier(key, **params).fit(X, observed)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    scores = model.decision_function(X_test)
    result = {"ap": average_precision(Y, scores), "seconds": seconds, "predict": time.perf_counter() - started}
    if key == "auto":
        result["weights"] = [
            [one["method"], round(one["weight"], 3), one["folds"], round(one["seconds"], 1)]
            for one in model.history_.records
        ]
        with tempfile.TemporaryDirectory() as folder:
            result["megabytes"] = model.save(Path(folder) / "m.onepos").stat().st_size / 1e6
    return result


def made(shape, seed):
    """A made table (X, Y): labels follow a two-layer function of latent topics, of which features are noisy views."""
    generator = np.random.default_rng(seed)
    n, q, c, kind = shape
    topics = 12
    n_test = min(2000, n // 4)
    latent = generator.gamma(0.4, size=(n + n_test, topics))
    latent /= latent.sum(axis=1, keepdims=True)
    if kind == "text":
        words = generator.dirichlet(np.full(q, 0.02), size=topics)
        counts = generator.poisson(25 * latent @ words)
        X = sparse.csr_matrix(counts, dtype=np.float64)
        from sklearn.feature_extraction.text import TfidfTransformer

        X = sparse.csr_matrix(TfidfTransformer(sublinear_tf=True).fit_transform(X))
    else:
        hidden = np.tanh(latent @ generator.normal(size=(topics, 64)) * 3)
        noise = 0.5 if kind == "embedding" else 1.0
        X = hidden @ generator.normal(size=(64, q)) / 8 + noise * generator.normal(size=(n + n_test, q))
    logits = 4 * np.tanh(3 * latent @ generator.normal(size=(topics, 32))) @ generator.normal(size=(32, c)) / 5
    logits -= np.quantile(logits, 1 - min(2.5, c / 2) / c, axis=1, keepdims=True)
    Y = (generator.random(logits.shape) < 1 / (1 + np.exp(-3 * logits))).astype(np.int8)
    Y[np.arange(len(Y)), logits.argmax(axis=1)] = 1
    observed = make_single_positive(Y[:n], random_state=seed)
    return X[:n], dense(observed), X[n:], Y[n:]


SHAPES = {
    "4,000 × 10,000 text, 20 labels": (4000, 10_000, 20, "text"),
    "4,000 × 384 embeddings, 19 labels": (4000, 384, 19, "embedding"),
    "400 × 68, 174 labels": (400, 68, 174, "table"),
    "600 × 72, 6 labels": (600, 72, 6, "table"),
    "50,000 × 500, 30 labels": (50_000, 500, 30, "embedding"),
    "200,000 × 50, 20 labels": (200_000, 50, 20, "table"),
}


def run_shapes(budget, seeds):
    for seed in range(seeds):
        for name, shape in SHAPES.items():
            parts = made(shape, seed)
            for key in ("frequency", "logistic", "forest"):
                record("shapes", {"data": name, "seed": seed, "what": key}, fit_ours, key, *parts, random_state=seed)
            key = {"data": name, "seed": seed, "what": f"auto {budget:g}"}
            record("shapes", key, fit_ours, "auto", *parts, random_state=seed, time_budget=budget)


def run_defaults(keys, names, seeds):
    for seed in range(seeds):
        for name in names:
            parts = trial_of(name, seed)
            for key in ("frequency", *keys):
                if key != "bce":
                    record(
                        "defaults", {"data": name, "seed": seed, "what": key}, fit_ours, key, *parts, random_state=seed
                    )


def netflix_text():
    """TF-IDF of title and description, observed and complete labels, split into training and test rows."""
    frame = netflix_frame()
    train, test = netflix_rows(frame)
    genres = frame["listed_in"].str.split(", ")
    labels = sorted({genre for row in genres for genre in row})
    Y = np.array([[label in row for label in labels] for row in genres], dtype=np.int8)
    observed = np.array([[label == tag for label in labels] for tag in frame["tag"]], dtype=np.int8)
    text = (frame["title"] + " " + frame["description"]).fillna("")
    vectorizer = TfidfVectorizer(max_features=10_000, sublinear_tf=True).fit(text.iloc[train])
    X = sparse.csr_matrix(vectorizer.transform(text))
    return X[train], observed[train], X[test], Y[test]


def netflix_frame():
    """The table with one random genre per row in the column ``tag``."""
    frame = pd.read_csv(netflix_path())
    generator = np.random.default_rng(0)
    generator.permutation(len(frame))  # the test rows are drawn first
    frame["tag"] = [str(generator.choice(row.split(", "))) for row in frame["listed_in"]]
    return frame


def netflix_rows(frame):
    order = np.random.default_rng(0).permutation(len(frame))
    return np.sort(order[1500:]), np.sort(order[:1500])


def run_sizes(keys):
    for name, n_positives in {"yeast": 4.24, "rcv1-s1": 2.88, "netflix": 2.2}.items():
        parts = trial_of(name, 0) if name != "netflix" else netflix_text()
        for key in keys:
            if key != "bce":
                record("sizes", {"data": name, "what": key}, size_of_sets, key, n_positives, *parts[:3])


def size_of_sets(key, n_positives, X, observed, X_test):
    params = {"time_budget": 30} if key == "auto" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = onepos.make_classifier(key, n_positives=n_positives, random_state=0, **params).fit(X, observed)
    sizes = np.asarray(model.predict(X_test)).sum(axis=1)
    return {"n_positives": n_positives, "mean": float(sizes.mean()), "empty": int((sizes == 0).sum())}


def run_speed():
    problems = {"4,012 × 384 × 19": made((4012, 384, 19, "embedding"), 0), "Netflix text": netflix_text()}
    for name, parts in problems.items():
        for what in ("LogisticRegression", "ExtraTreesClassifier"):
            record("speed", {"data": name, "what": what}, fit_instead, what, *parts)
        for key, params in (("logistic", {}), ("forest", {"n_trees": 500}), ("capped", {}), ("smile", {})):
            record("speed", {"data": name, "what": key}, fit_ours, key, *parts, random_state=0, **params)


def run_netflix(budget, embed):
    what = f"onepos fit --budget {budget:g}" + (" --embed MiniLM" if embed else "")
    record("netflix", {"what": what}, fit_netflix, budget, embed)
    for name in ("LogisticRegression", "ExtraTreesClassifier"):
        record("netflix", {"what": name}, fit_netflix_instead, name)


def fit_netflix_instead(name):
    """What a user would write: TF-IDF of the text, frequent values of other words one-hot, a classifier of the tag."""
    frame = netflix_frame()
    train, test = netflix_rows(frame)
    started = time.perf_counter()
    features = make_column_transformer(
        (TfidfVectorizer(min_df=2, max_features=10_000, sublinear_tf=True), "text"),
        (OneHotEncoder(min_frequency=5, handle_unknown="infrequent_if_exist"), ["type", "country", "rating"]),
    )
    table = frame.fillna("").assign(text=frame["title"] + " " + frame["description"])
    X = features.fit_transform(table.iloc[train])
    model = INSTEAD[name]().fit(X, frame["tag"].iloc[train])
    seconds = time.perf_counter() - started
    genres = frame["listed_in"].str.get_dummies(", ")[model.classes_]
    scores = model.predict_proba(features.transform(table.iloc[test]))
    return {"seconds": seconds, "ap": average_precision(genres.iloc[test].to_numpy(), scores)}


def fit_netflix(budget, embed):
    """Fit and evaluate with the command line, from a cold start."""
    frame = netflix_frame()
    train, test = netflix_rows(frame)
    columns = [name for name in frame.columns if name not in ("listed_in", "tag")]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        frame.iloc[train][[*columns, "tag"]].to_csv(here / "train.csv", index=False)
        complete = frame.iloc[test][[*columns, "listed_in"]].rename(columns={"listed_in": "tag"})
        complete.to_csv(here / "test.csv", index=False)
        options = ["--label", "tag", "--text", "description,title", "--id", "show_id", "--n-positives", "2.2"]
        if embed:
            options += ["--embed", str(Path(embed).resolve())]
            _command(here, "fit", "train.csv", *options, "--method", "frequency", "--out", "cached.onepos")
        started = time.perf_counter()
        _command(here, "fit", "train.csv", *options, "--budget", f"{budget:g}", "--out", "m.onepos")
        seconds = time.perf_counter() - started
        scores = _command(here, "evaluate", "m.onepos", "test.csv", "--label", "tag", "--separator", ", ")
        sizes = np.asarray(onepos.load(here / "m.onepos").predict(pd.read_csv(here / "test.csv"))).sum(axis=1)
        file = {"seconds": seconds, "megabytes": (here / "m.onepos").stat().st_size / 1e6}
        return {**file, "mean_size": float(sizes.mean()), "empty": int((sizes == 0).sum()), "evaluate": scores}


def _command(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "onepos", *words, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def mean_and_spread(values):
    values = np.asarray(values)
    return f"{values.mean():.3f}".lstrip("0") + (
        f" ± {values.std(ddof=1):.3f}".replace("0.", ".") if len(values) > 1 else ""
    )


def markdown(header, lines):
    return "\n".join(
        [
            "| " + " | ".join(header) + " |",
            "|" + "---|" * len(header),
            *("| " + " | ".join(line) + " |" for line in lines),
        ]
    )


def rows_of(section):
    frame = pd.DataFrame([row for row in known() if row["section"] == section])
    return frame if len(frame) else pd.DataFrame(columns=["data", "what"])


def sets_table():
    """Average precision and seconds of each, one line per data set."""
    frame = rows_of("sets")
    auto = pd.read_parquet(AUTO)[["dataset", "method", "trial", "average_precision", "seconds"]]
    auto.columns = ["data", "what", "trial", "ap", "seconds"]
    frame = pd.concat([frame, auto.merge(frame[["data", "trial"]].drop_duplicates())])  # the same trials for all
    columns = [name for name in SETS_COLUMNS if name in set(frame["what"])]
    lines = []
    for name in SETS:
        found = frame[frame["data"] == name]
        cells = []
        for what in columns:
            one = found[found["what"] == what]
            cells.append(
                f"{mean_and_spread(one['ap'])} ({one['seconds'].mean():.0f} s, {len(one)})" if len(one) else "–"
            )
        lines.append([name, *cells])
    return markdown(["data set", *(SETS_COLUMNS[what] for what in columns)], lines)


SETS_COLUMNS = {
    "LogisticRegression": "logistic regression",
    "ExtraTreesClassifier": "forest",
    "HistGradientBoostingClassifier": "gradient boosting",
    "auto": "`auto`, 60 s",
}


def shapes_table():
    frame = rows_of("shapes")
    lines = []
    for name in SHAPES:
        found = frame[frame["data"] == name]
        if len(found):
            cells = []
            for what in ("frequency", "logistic", "forest", "auto 60"):
                one = found[found["what"] == what]
                cells.append(
                    f"{mean_and_spread([one['ap'].mean()])} ({one['seconds'].mean():.0f} s)" if len(one) else "–"
                )
            lines.append([name, *cells])
    return markdown(["made table", "`frequency`", "`logistic`", "`forest`", "`auto`, 60 s"], lines)


def defaults_table():
    frame = rows_of("defaults")
    keys = [key for key in dict.fromkeys(frame["what"]) if key != "frequency"]
    lines = []
    for key in ["frequency", *keys]:
        cells = []
        for name in SETS:
            one = frame[(frame["data"] == name) & (frame["what"] == key)]
            cells.append(f"{one['ap'].mean():.3f}".lstrip("0") if len(one) else "–")
        lines.append([f"`{key}`", *cells])
    return markdown(["method", *SETS], lines)


def sizes_table():
    frame = rows_of("sizes")
    wanted = {name: found["n_positives"].iloc[0] for name, found in frame.groupby("data", sort=False)}
    lines = []
    for key in dict.fromkeys(frame["what"]):
        cells = []
        for name in wanted:
            one = frame[(frame["data"] == name) & (frame["what"] == key)]
            cells.append(f"{one['mean'].iloc[0]:.2f}" if len(one) else "–")
        lines.append([f"`{key}`", *cells])
    return markdown(["method", *(f"{name} ({value:g})" for name, value in wanted.items())], lines)


def speed_table():
    frame = rows_of("speed")
    lines = []
    for name in dict.fromkeys(frame["data"]):
        found = frame[frame["data"] == name].set_index("what")
        unit = found.loc["LogisticRegression", "seconds"]
        for what, row in found.iterrows():
            lines.append(
                [name, f"`{what}`", f"{row['seconds']:.1f}", f"{row['seconds'] / unit:.2f}", f"{row['ap']:.3f}"]
            )
    return markdown(["data", "method", "seconds", "ratio to `LogisticRegression`", "average precision"], lines)


def netflix_table():
    frame = rows_of("netflix")
    lines = []
    for _, row in frame.iterrows():
        scores = row["evaluate"]
        if not isinstance(scores, dict):  # scikit-learn's classifiers have no sets
            lines.append([f"`{row['what']}`", f"{row['ap']:.3f}", "", "", "", f"{row['seconds']:.0f}", ""])
            continue
        sets = scores["sets"]
        quality = f"{scores['measures']['average_precision']['mean']:.3f}", f"{sets['micro_f1']:.3f}"
        cost = f"{row['seconds']:.0f}", f"{row['megabytes']:.0f}"
        lines.append([f"`{row['what']}`", *quality, f"{row['mean_size']:.2f}", f"{row['empty']:.0f}", *cost])
    return markdown(["command", "AP", "micro-F1", "tags per row", "rows without a tag", "seconds", "MB"], lines)


TABLES = {
    "netflix": netflix_table,
    "sets": sets_table,
    "shapes": shapes_table,
    "speed": speed_table,
    "defaults": defaults_table,
    "sizes": sizes_table,
}


def write_page():
    """Put the tables between their markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if start in text and len(rows_of(name)):
            before, rest = text.split(start)
            text = before + start + make() + "\n" + end + rest.split(end, 1)[1]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=["sets", "shapes", "defaults", "sizes", "speed", "netflix", "page"])
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--names", default=",".join(SETS))
    parser.add_argument("--keys", default="")
    parser.add_argument("--embed", default="", help="With netflix: folder of a sentence-transformers model.")
    given = parser.parse_args()
    if given.keys:
        chosen = tuple(given.keys.split(","))
    else:
        chosen = tuple(key for key in onepos.list_methods().index if key != "frequency")
    if given.section == "sets":
        run_sets(given.trials, given.names.split(","))
    elif given.section == "shapes":
        run_shapes(given.budget, given.seeds)
    elif given.section == "defaults":
        run_defaults(chosen, given.names.split(","), given.seeds)
    elif given.section == "sizes":
        run_sizes(chosen)
    elif given.section == "speed":
        run_speed()
    elif given.section == "netflix":
        run_netflix(given.budget, given.embed)
    elif given.section == "page":
        write_page()

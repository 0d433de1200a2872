"""What a user gets without choosing anything, beside what they would use instead. Resumable: each row is kept as it is done.

python benchmarks/default_path.py sets --budget 60     auto, logistic regression, a forest, gradient boosting; nine sets, five trials
python benchmarks/default_path.py shapes               auto, logistic, forest on six made tables
python benchmarks/default_path.py defaults             every method with default settings, nine sets, two seeds
python benchmarks/default_path.py sizes                mean size of predicted sets, every method
python benchmarks/default_path.py speed                seconds as ratios to scikit-learn, same run
python benchmarks/default_path.py netflix              `onepos fit` and `evaluate` on the Netflix table, cold start
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
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import onepos
from onepos.datasets import load_dataset, make_single_positive, split
from onepos.metrics import average_precision

HERE = Path(__file__).resolve().parent
ROWS = HERE / "default_path.jsonl"
PAGE = HERE.parent / "docs" / "instead.md"
SETS = ("CAL500", "image", "scene", "yeast", "corel5k", "rcv1-s1", "tmc2007", "corel16k-s1", "delicious")
#: Gradient boosting grows one tree per label and round: with more labels it takes hours.
MOST_LABELS_TO_BOOST = 25


def netflix_path():
    """Where the table is: $ONEPOS_TABLES, else ../shared/tables."""
    folder = Path(os.environ.get("ONEPOS_TABLES", HERE.parents[1] / "shared" / "tables"))
    path = folder / "netflix_titles.csv"
    if not path.is_file():
        raise SystemExit(f"no {path}: set ONEPOS_TABLES to the folder of netflix_titles.csv.")
    return path


def known():
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []


def record(section, key, compute):
    """Run ``compute`` unless a row of this section has the key; it returns more fields of the row."""
    for row in known():
        if row["section"] == section and all(row.get(name) == value for name, value in key.items()):
            return row
    row = {"section": section, **key, **compute()}
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


def instead(name, n_labels):
    """scikit-learn's classifiers on the observed label, as a user would write them."""
    return {
        "LogisticRegression": lambda: LogisticRegression(max_iter=200),
        "ExtraTreesClassifier": lambda: ExtraTreesClassifier(500, min_samples_leaf=2, n_jobs=-1, random_state=0),
        "HistGradientBoostingClassifier": lambda: HistGradientBoostingClassifier(random_state=0),
    }[name]()


def fit_instead(name, X, observed, X_test):
    """Log-probabilities of all labels on test rows, and seconds."""
    rows = np.flatnonzero((observed > 0).any(axis=1))
    if name == "HistGradientBoostingClassifier":
        X, X_test = dense(X), dense(X_test)
    if name == "LogisticRegression" and not sparse.issparse(X):
        mean, deviation = X.mean(axis=0), X.std(axis=0) + 1e-9
        X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    started = time.perf_counter()
    model = instead(name, observed.shape[1]).fit(X[rows], observed[rows].argmax(axis=1))
    seconds = time.perf_counter() - started
    scores = np.full((X_test.shape[0], observed.shape[1]), 0.0)
    scores[:, model.classes_] = model.predict_proba(X_test)
    frequency = (observed > 0).mean(axis=0)
    return scores + 1e-6 * frequency, seconds  # labels of equal probability by their frequency


def run_sets(budget, trials, names, instead_too):
    for trial in range(trials):
        for name in names:
            X, observed, X_test, Y = trial_of(name, trial)
            others = ["LogisticRegression", "ExtraTreesClassifier"]
            if observed.shape[1] <= MOST_LABELS_TO_BOOST:
                others.append("HistGradientBoostingClassifier")
            for other in others if instead_too else []:

                def compute(other=other):
                    scores, seconds = fit_instead(other, X, observed, X_test)
                    return {"ap": average_precision(Y, scores), "seconds": seconds}

                record("sets", {"data": name, "trial": trial, "what": other}, compute)
            record(
                "sets",
                {"data": name, "trial": trial, "what": f"auto {budget:g}"},
                lambda: fit_ours("auto", X, observed, X_test, Y, time_budget=budget, random_state=trial),
            )


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
            X, observed, X_test, Y = made(shape, seed)
            for key in ("frequency", "logistic", "forest", "auto"):
                params = {"time_budget": budget} if key == "auto" else {}
                record(
                    "shapes",
                    {"data": name, "seed": seed, "what": key if key != "auto" else f"auto {budget:g}"},
                    lambda key=key, params=params: fit_ours(key, X, observed, X_test, Y, random_state=seed, **params),
                )


def run_defaults(keys, names, seeds):
    for seed in range(seeds):
        for name in names:
            X, observed, X_test, Y = trial_of(name, seed)
            for key in ("frequency", *keys):
                if key == "bce":
                    continue
                record(
                    "defaults",
                    {"data": name, "seed": seed, "what": key},
                    lambda key=key: fit_ours(key, X, observed, X_test, Y, random_state=seed),
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
    m = {"yeast": 4.24, "rcv1-s1": 2.88, "netflix": 2.2}
    for name, n_positives in m.items():
        X, observed, X_test, _ = trial_of(name, 0) if name != "netflix" else netflix_text()
        for key in keys:
            if key == "bce":
                continue

            def compute(key=key):
                params = {"time_budget": 30} if key == "auto" else {}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = onepos.make_classifier(key, n_positives=n_positives, random_state=0, **params)
                    sets = np.asarray(model.fit(X, observed).predict(X_test))
                sizes = sets.sum(axis=1)
                return {"n_positives": n_positives, "mean": float(sizes.mean()), "empty": int((sizes == 0).sum())}

            record("sizes", {"data": name, "what": key}, compute)


def run_speed():
    X, observed, X_test, Y = made((4012, 384, 19, "embedding"), 0)
    problems = {"4,012 × 384 × 19": (X, observed, X_test, Y), "Netflix text": netflix_text()}
    for name, (X, observed, X_test, Y) in problems.items():
        for what in ("LogisticRegression", "ExtraTreesClassifier"):

            def compute(what=what):
                scores, seconds = fit_instead(what, X, observed, X_test)
                return {"ap": average_precision(Y, scores), "seconds": seconds}

            record("speed", {"data": name, "what": what}, compute)
        for key, params in (("logistic", {}), ("forest", {"n_trees": 500}), ("capped", {}), ("smile", {})):
            record(
                "speed",
                {"data": name, "what": key},
                lambda key=key, params=params: fit_ours(key, X, observed, X_test, Y, random_state=0, **params),
            )


def run_netflix(budget):
    """The command line from a cold start, as in the issue of a user's first table."""

    def compute():
        frame = netflix_frame()
        train, test = netflix_rows(frame)
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            columns = [name for name in frame.columns if name not in ("listed_in", "tag")]
            frame.iloc[train][[*columns, "tag"]].to_csv(here / "train.csv", index=False)
            frame.iloc[test][[*columns, "listed_in"]].rename(columns={"listed_in": "tag"}).to_csv(
                here / "test.csv", index=False
            )
            base = [sys.executable, "-m", "onepos"]
            started = time.perf_counter()
            fit = subprocess.run(
                [*base, "fit", "train.csv", "--label", "tag", "--text", "description,title", "--id", "show_id"]
                + ["--budget", f"{budget:g}", "--n-positives", "2.2", "--out", "m.onepos", "--json"],
                cwd=here,
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.perf_counter() - started
            if fit.returncode:
                raise SystemExit(fit.stderr)
            scored = subprocess.run(
                [*base, "evaluate", "m.onepos", "test.csv", "--label", "tag", "--separator", ", ", "--json"],
                cwd=here,
                capture_output=True,
                text=True,
                check=False,
            )
            if scored.returncode:
                raise SystemExit(scored.stderr)
            model = onepos.load(here / "m.onepos")
            sizes = np.asarray(model.predict(pd.read_csv(here / "test.csv"))).sum(axis=1)
            return {
                "seconds": seconds,
                "megabytes": (here / "m.onepos").stat().st_size / 1e6,
                "mean_size": float(sizes.mean()),
                "empty": int((sizes == 0).sum()),
                "evaluate": json.loads(scored.stdout),
            }

    record("netflix", {"what": f"onepos fit --budget {budget:g}"}, compute)


def table(rows, index, columns, values="ap", form="{:.3f}"):
    frame = pd.DataFrame(rows)
    pivot = frame.pivot_table(index=index, columns="what", values=values, aggfunc="mean", sort=False)
    lines = ["| " + " | ".join([index, *columns]) + " |", "|" + "---|" * (len(columns) + 1)]
    for name, row in pivot.iterrows():
        cells = [form.format(row[c]) if c in row and pd.notna(row[c]) else "–" for c in columns]
        lines.append("| " + " | ".join([str(name), *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=["sets", "shapes", "defaults", "sizes", "speed", "netflix", "page"])
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--names", default=",".join(SETS))
    parser.add_argument("--keys", default="")
    parser.add_argument("--no-instead", action="store_true", help="Leave scikit-learn's classifiers out.")
    given = parser.parse_args()
    if given.keys:
        chosen = tuple(given.keys.split(","))
    else:
        chosen = tuple(key for key in onepos.list_methods().index if key != "frequency")
    if given.section == "sets":
        run_sets(given.budget, given.trials, given.names.split(","), not given.no_instead)
    elif given.section == "shapes":
        run_shapes(given.budget, given.seeds)
    elif given.section == "defaults":
        run_defaults(chosen, given.names.split(","), given.seeds)
    elif given.section == "sizes":
        run_sizes(chosen)
    elif given.section == "speed":
        run_speed()
    elif given.section == "netflix":
        run_netflix(given.budget)

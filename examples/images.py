"""Pictures with one label.

Each picture shows several handwritten digits, and one of them is its label. A small convolutional network learns from
these labels to name all digits of new pictures.
"""

# %%
# `make_digit_scenes` composes pictures from scans that come with scikit-learn. Test pictures use other scans, by other
# writers. `observed` keeps one digit of each picture and hides the others.

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import nn
from torch.utils.data import TensorDataset

import onepos
from onepos.datasets import make_digit_scenes, make_single_positive
from onepos.metrics import evaluate
from onepos.pages.figures import INK, TEXT

parser = argparse.ArgumentParser(description="Pictures with one label.")
parser.add_argument("--out", type=Path, default=Path(), help="folder for the picture")
parser.add_argument("--rows", type=int, default=1600, help="pictures to train on")
options = parser.parse_args()

rules = {"grid": (1, 3), "max_digits": 3}
train = make_digit_scenes(options.rows, scans="train", random_state=0, **rules)
test = make_digit_scenes(500, scans="test", random_state=1, **rules)
observed = make_single_positive(train.Y, random_state=0)
print(f"digits per picture: {train.Y.sum(axis=1).mean():.2f}, of which one is known")

# %%
# The network can be any torch module that takes features and returns one logit per label, or a function that makes one.
# This one finds digits anywhere in the picture. It reads pictures from a torch `Dataset`. The first three models see
# the pixels as vectors. The others are one network with the losses of several methods, which tells apart what the
# network gives and what the loss gives: `softmax` is the plain cross-entropy of a classifier, and `an` counts every
# digit that is not the tag as absent. `bce` sees all labels: it is the ceiling.


def small_cnn(n_features: int, n_labels: int) -> nn.Module:
    """Make the network."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()),
        nn.Linear(32, n_labels),
    )


pictures, unseen = (TensorDataset(torch.from_numpy(part.images[:, None])) for part in (train, test))  # (1, 10, 30) each
settings = {"max_epochs": 12, "batch_size": 16, "learning_rate": 3e-3, "scale": "none", "early_stopping": False}
settings |= {"n_positives": 2.0, "random_state": 0}
plain = {
    "logistic": onepos.make_classifier("logistic", random_state=0),
    "forest": onepos.make_classifier("forest", random_state=0),
    "an, MLP": onepos.make_classifier("an", **settings),
}
losses = ("softmax", "an", "role", "epr", "capped", "bce")
models = {key: onepos.make_classifier(key, network=small_cnn, **settings) for key in losses}
found = {name: model.fit(train.X, observed).predict_proba(test.X) for name, model in plain.items()}
for key, model in models.items():
    # Some methods look for similar pictures, by their pixels.
    nearby = {"graph_features": train.X} if key in ("role", "epr", "capped") else {}
    model.fit(pictures, train.Y if key == "bce" else observed, **nearby)
    found[f"{key}, CNN"] = model.predict_proba(unseen)
for name, probabilities in found.items():
    scores = evaluate(test.Y, probabilities)
    print(f"{name:12} " + "  ".join(f"{metric} {value:.3f}" for metric, value in scores.items()))

# %%
# The same from a table of files. `image` names the column of pictures, and `embed` turns them into vectors: the path of
# an ONNX file, or any object with `encode`. Without it, a small network that was trained on ImageNet does this. The
# embedder here is the network that `an` has just trained, without its last layer. A file that is no picture does not
# end the run: a note names its row.

folder = Path(tempfile.mkdtemp())
files = {
    part: [f"{part}{number}.png" for number in range(len(made.Y))] for part, made in (("train", train), ("test", test))
}
for part, made in (("train", train), ("test", test)):
    for name, pixels in zip(files[part], made.images, strict=True):
        Image.fromarray((255 * pixels).astype(np.uint8)).save(folder / name)
(folder / "train3.png").write_bytes(b"no picture")


class WithoutLastLayer:
    """Pictures as what the last layer of a network sees."""

    def __init__(self, network: nn.Module) -> None:
        self.layers = nn.Sequential(*list(network.children())[:-1])

    def encode(self, items: list[Image.Image]) -> np.ndarray:
        """Return a vector per picture."""
        pixels = np.stack([np.asarray(picture.convert("L"), dtype=np.float32) / 255 for picture in items])
        with torch.inference_mode():
            return self.layers(torch.from_numpy(pixels[:, None])).numpy()


frame = pd.DataFrame({"file": files["train"], "tag": [f"digit {digit}" for digit in observed.argmax(axis=1)]})
embedder = WithoutLastLayer(models["an"].network_)
table = onepos.TableModel(method="logistic", image="file", embed=embedder, image_folder=folder).fit(frame, label="tag")
print(table.facts_["notes"])
scores = evaluate(test.Y, table.predict_proba(pd.DataFrame({"file": files["test"]})))
print(f"logistic, {table.encoder_.n_features_} features of files: average precision {scores['average_precision']:.3f}")

# %%
# Single labels teach a ranking. For label sets, ½ is a poor threshold: few probabilities of `an` reach it. `predict`
# chooses the threshold so that rows have `n_positives` labels on average ("cut at m" below).

for key in ("an", "bce"):
    model = models[key]
    for rule, sets in (("½", model.predict_proba(unseen) >= 0.5), ("m", model.predict(unseen))):
        both = (sets * test.Y).sum(axis=1)
        f1 = (2 * both / (sets.sum(axis=1) + test.Y.sum(axis=1))).mean()
        print(f"{key:6} cut at {rule}: {sets.sum(axis=1).mean():.2f} digits per picture, F1 of the sets {f1:.3f}")

# %%
# Ten test pictures with the label sets of `an`, from the worst set to the best. Digits in brackets were missed. Digits
# with a minus were suggested but are not in the picture.

sets = models["an"].predict(unseen).astype(bool)
f1 = 2 * (sets & (test.Y == 1)).sum(axis=1) / (sets.sum(axis=1) + test.Y.sum(axis=1))
spread = np.argsort(f1, kind="stable")[np.linspace(0, len(f1) - 1, 10).astype(int)]
figure = Figure(figsize=(7.0, 2.1), layout="constrained")
for number, axes in zip(spread, figure.subplots(2, 5).flat, strict=True):
    truth = test.Y[number].astype(bool)
    found = " ".join(str(digit) for digit in np.flatnonzero(truth & sets[number]))
    missed = "".join(f" ({digit})" for digit in np.flatnonzero(truth & ~sets[number]))
    wrong = "".join(f" −{digit}" for digit in np.flatnonzero(~truth & sets[number]))
    axes.imshow(test.images[number], cmap="gray_r", vmin=0, vmax=1)
    axes.set_title(f"{found}{missed}{wrong}".strip(), fontsize=TEXT + 3, color=INK)
    axes.set_axis_off()
figure.savefig(options.out / "images.png", dpi=120, metadata={"Software": None})

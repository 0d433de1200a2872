"""The journey of a user on data made for it: a table with one tag per row, doctor, fit, completed tags, two pages."""

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from onepos._utils.context import progress_to, quiet, stage, tell
from onepos._utils.labels import one_positive
from onepos._utils.machine import require
from onepos.datasets import make_digit_scenes, make_single_positive
from onepos.doctor import diagnose
from onepos.exceptions import TrainingWarning
from onepos.methods.registry import make_classifier
from onepos.metrics import average_precision
from onepos.pages.model_page import model_report
from onepos.pages.review import write_review
from onepos.pages.style import require_report
from onepos.training.machine import limited_threads

if TYPE_CHECKING:
    from torch import nn

    from onepos.doctor import Diagnosis
    from onepos.methods._base import OnePositiveClassifier

__all__ = ["DemoResult", "digit_network", "run_demo"]

#: The mean number of digits per picture. A user has to know it; every method gets it.
N_POSITIVES = 2.5
#: The mean size of the sets of suggested labels, below the true mean: a wrong tag costs more than a missing one.
SET_SIZE = 2.2
METHOD = "epr"
#: Methods to compare the network with. They see the pixels as plain columns.
BASELINES = ("logistic", "forest")
#: Chosen on the seeds 101 to 105, by the hidden labels of their training pictures.
SETTINGS = {"batch_size": 128, "learning_rate": 1e-2, "scale": "none", "early_stopping": False}
_TITLE = "Digits in pictures"
#: Folds of a baseline, and pictures on the review page.
_FOLDS, _REVIEWED = 3, 300


def digit_network(n_features: int, n_labels: int) -> "nn.Module":
    """Return a small convolutional network for square pictures given as rows of pixels."""
    from torch import nn

    def layer(before: int, after: int) -> list["nn.Module"]:
        return [nn.Conv2d(before, after, 3), nn.BatchNorm2d(after), nn.ReLU()]

    side = round(n_features**0.5)
    return nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        *layer(1, 16),
        *layer(16, 32),
        nn.MaxPool2d(2),
        *layer(32, 64),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(64, n_labels),
    )


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    ``scores`` has one row per method: ``suggested`` counts the labels that it adds to the training table,
    ``precision`` is the share of them that is true, ``recall`` the share of the hidden labels that is among them, and
    ``average_precision`` that of new pictures. ``facts`` are sizes, ``files`` the paths of table,
    completed table, review page and report.
    """

    scores: pd.DataFrame
    diagnosis: "Diagnosis"
    facts: Mapping[str, Any]
    files: Mapping[str, Path]
    seconds: float


def run_demo(
    *, out: Path, random_state: int = 0, n_train: int = 2500, n_test: int = 1000, max_epochs: int = 16
) -> DemoResult:
    """Complete the tags of pictures of which one digit is named, compare with the hidden truth, write two pages.

    Parameters
    ----------
    out : Path
        Folder for the files. It is created if it does not exist.
    random_state : int
        Equal seeds give equal results.
    n_train, n_test : int
        Pictures with one tag each, and fully labelled pictures of other scans.
    max_epochs : int

    Raises
    ------
    KeyboardInterrupt
        Also if Ctrl-C came during training, which alone would end in a usable model.
    """
    require_report()
    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    paths = {Path(name).stem: out / name for name in ("table.csv", "completed.csv", "review.html", "report.html")}
    tell(0.0, "making a table")
    seeds = [int(seed) for seed in np.random.SeedSequence(random_state).generate_state(4)]
    seen = make_digit_scenes(n_train, random_state=seeds[0], scans="train")
    unseen = make_digit_scenes(n_test, random_state=seeds[1], scans="test")
    observed = make_single_positive(seen.Y, random_state=seeds[2])
    table, new = _table(seen, observed), _table(unseen)
    table.to_csv(paths["table"], index=False)
    tell(0.03, "doctor")
    diagnosis = diagnose(table.drop(columns=["id", "tag"]), table["tag"])
    # The batches are small: on a busy machine, threads that wait for each other made the demo ten times slower.
    with threadpool_limits(1), limited_threads(1):
        tell(0.05, "training a network")
        pixels, tags = table[seen.feature_names], one_positive(table["tag"], classes=seen.label_names)
        with stage(0.05, 0.6):
            model = _fit(pixels, tags, max_epochs, seeds[3])
        model.choose_thresholds(pixels, n_positives=SET_SIZE)
        sets, probabilities = model.predict(pixels), model.predict_proba(pixels)
        tell(0.6, "comparing")
        with progress_to(None):
            scores = {key: _baseline(key, seen, observed, unseen, seeds[3]) for key in BASELINES}
        scores[METHOD] = compare(seen.Y, observed, sets, unseen.Y, model.predict_proba(new[unseen.feature_names]))
        results = pd.DataFrame.from_dict(scores, orient="index").rename_axis("method")
        facts: dict[str, Any] = {
            "random_state": random_state,
            "n_train": n_train,
            "mean_labels": float(seen.Y.sum(axis=1).mean()),
            "hidden": int(((seen.Y == 1) & (observed == 0)).sum()),
            "method": METHOD,
        }
        tell(0.9, "writing pages")
        completed = np.maximum(sets, observed)
        told = table[["id", "tag"]].assign(completed=_joined(completed), truth=_joined(seen.Y))
        told.to_csv(paths["completed"], index=False)
        write_review(
            paths["review"],
            ids=table["id"][:_REVIEWED].tolist(),
            observed=table["tag"][:_REVIEWED].tolist(),
            labels=seen.label_names,
            probabilities=probabilities[:_REVIEWED],
            images=[png_address(image) for image in seen.images[:_REVIEWED]],
            title=_TITLE,
            threshold=model.thresholds_.tolist(),
        )
        model_report(
            model,
            new[unseen.feature_names],
            unseen.Y,
            paths["report"],
            complete=True,
            diagnosis=diagnosis,
            ids=new["id"].tolist(),
            title=_TITLE,
            lead=describe(results, facts),
        )
    tell(1.0, "done")
    return DemoResult(results, diagnosis, facts, paths, time.perf_counter() - started)


def describe(scores: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """Return the result in a few sentences."""
    own = scores.loc[METHOD]
    others = "; ".join(
        f"{name}: {row['precision']:.0%} and {row['recall']:.0%}" for name, row in scores.drop(index=METHOD).iterrows()
    )
    return (
        f"Each of {facts['n_train']:,} training pictures came with one tag; {facts['hidden']:,} further digits were "
        f"hidden. The model suggests {own['suggested']:,.0f} tags. Of these, {own['precision']:.0%} are true, and they "
        f"cover {own['recall']:.0%} of the hidden digits ({others}). The rest of this page is about new pictures."
    )


def _table(scenes: Any, observed: NDArray[np.integer] | None = None) -> pd.DataFrame:
    """Return one row per picture: an id, the tag if there is one, and the pixels."""
    pixels = pd.DataFrame(scenes.X.astype(np.float64).round(3), columns=scenes.feature_names)
    pixels.insert(0, "id", [f"picture {number:,}" for number in range(1, len(pixels) + 1)])
    if observed is not None:
        pixels.insert(1, "tag", [scenes.label_names[column] for column in observed.argmax(axis=1)])
    return pixels


def _fit(pixels: pd.DataFrame, tags: pd.DataFrame, max_epochs: int, seed: int) -> "OnePositiveClassifier":
    settings = SETTINGS | {"max_epochs": max_epochs, "n_positives": N_POSITIVES, "random_state": seed}
    model = make_classifier(METHOD, network=digit_network, **settings)
    # Training turns Ctrl-C into a warning and a model. Here it means that the user wants to leave.
    with quiet(TrainingWarning, "training was interrupted"):
        model.fit(pixels, tags)
    if model.history_.facts.get("stopped") == "interrupted":
        raise KeyboardInterrupt
    return model


def _baseline(key: str, seen: Any, observed: NDArray[np.integer], unseen: Any, seed: int) -> dict[str, float]:
    """Score a method that sees the pixels as plain columns."""
    # Training rows are predicted out of fold: on the rows that it was fitted on, a forest only returns the tag it saw.
    sets = np.zeros_like(seen.Y)
    fold = np.random.default_rng(seed).permutation(len(sets)) % _FOLDS
    model = make_classifier(key, n_positives=N_POSITIVES, random_state=seed)
    for number in range(_FOLDS):
        part = fold == number
        model.fit(seen.X[~part], observed[~part]).choose_thresholds(seen.X[part], n_positives=SET_SIZE)
        sets[part] = model.predict(seen.X[part])
    probabilities = model.fit(seen.X, observed).predict_proba(unseen.X)
    return compare(seen.Y, observed, sets, unseen.Y, probabilities)


def compare(
    truth: NDArray[np.integer],
    observed: NDArray[np.integer],
    sets: NDArray[np.integer],
    new_truth: NDArray[np.integer],
    new_probabilities: Any,
) -> dict[str, float]:
    """Compare suggested labels with the hidden ones, and the ranking of new rows with their labels."""
    unseen = observed == 0
    suggested, hidden, right = (int((labels & unseen).sum()) for labels in (sets == 1, truth == 1, (sets & truth) == 1))
    return {
        "suggested": suggested,
        "precision": right / max(suggested, 1),
        "recall": right / max(hidden, 1),
        "average_precision": float(average_precision(new_truth, np.asarray(new_probabilities, dtype=np.float64))),
    }


def _joined(labels: NDArray[np.integer]) -> list[str]:
    return [";".join(map(str, np.flatnonzero(row))) for row in labels]


def png_address(image: NDArray[np.floating]) -> str:
    """Return a picture with values from 0 (white) to 1 (black) as ``data:image/png;base64,…``, enlarged 12 times."""
    pillow = require("PIL.Image", extra="plot", purpose="writing the review page")
    grey = np.round(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)
    stream = BytesIO()
    pillow.fromarray(np.kron(grey, np.ones((12, 12), dtype=np.uint8))).save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")

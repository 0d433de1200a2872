"""From results to the plain values that the page shows: everything here could be written as JSON."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from onepos._utils.optional import require
from onepos.metrics import METRIC_TITLES, METRICS, higher_is_better

if TYPE_CHECKING:
    import pandas as pd

    from onepos.training import History


_METRIC = "average_precision"


def verdict(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say who ranks best from single labels, how the methods compare, and how far full supervision is.

    Parameters
    ----------
    methods : mapping of key to a method of ``summarise``
        Sentences about a method that was not run are left out.
    """
    single = [method for method in methods.values() if not method["full_labels"]]
    sentences = []
    if single:
        best = max(single, key=_score)
        sentences.append(
            f"Of the methods that saw one label per picture, {best['name']} ranks best: average precision "
            f"{_score(best):.3f}."
        )
    if "smile" in methods and "an" in methods:
        sentences.append(_compare(methods["smile"], methods["an"]))
    if "frequency" in methods and "bce" in methods:
        sentences.extend(_distance(methods))
    return sentences


def _score(method: Mapping[str, Any]) -> float:
    return float(method["cells"][_METRIC]["mean"])


def _compare(smile: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    difference = _score(smile) - _score(other)
    spreads = [method["cells"][_METRIC]["spread"] for method in (smile, other)]
    place = "ahead of" if difference > 0 else "behind"
    sentence = f"{smile['name']} is {abs(difference):.3f} {place} {other['name']}"
    known = [spread for spread in spreads if spread is not None]
    if not known:
        return f"{sentence} in this one run, which says nothing about chance."
    more = "more" if abs(difference) > max(known) else "no more"
    return f"{sentence}, {more} than the runs differ among themselves (±{max(known):.3f})."


def _distance(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How much of the way from knowing nothing of the picture to knowing all labels each method goes."""
    floor, ceiling = _score(methods["frequency"]), _score(methods["bce"])
    if ceiling <= floor:
        return ["Full supervision is no better here than ranking by frequency: there was too little to learn from."]
    shares = [
        f"{method['name']} {100 * (_score(method) - floor) / (ceiling - floor):.0f} %"
        for key, method in methods.items()
        if key not in ("frequency", "bce")
    ]
    if not shares:
        return []
    return [
        f"On the way from ranking by frequency alone ({floor:.3f}) to training on every label ({ceiling:.3f}), one "
        f"label per picture gets this far: {', '.join(shares)}."
    ]


#: At and above this confidence the page calls a label present; below, a guess.
PRESENT = 0.5

Status = Literal["observed", "right", "wrong", "missed"]

#: The signs that go with the colours, so that nobody depends on the colours.
SIGNS: dict[Status, str] = {"observed": "●", "right": "✓", "wrong": "✗", "missed": "○"}


@dataclass(frozen=True)
class Mark:
    """A label of an example and what became of it; ``confidence`` is None where none was asked for."""

    label: str
    status: Status
    confidence: float | None = None

    @property
    def sign(self) -> str:
        """The sign that stands for the status."""
        return SIGNS[self.status]

    @property
    def present(self) -> bool:
        """Whether the method says that the label is there, and not only that it may be."""
        return self.confidence is None or self.confidence >= PRESENT


@dataclass(frozen=True)
class Example:
    """A training example of which one label was observed and others were recovered.

    Attributes
    ----------
    image : array of shape (height, width), 0 to 1
    observed : str
        The label that training saw.
    recovered : tuple of (str, float)
        The labels beside it that the method finds most likely, with its confidence, best first.
    true : tuple of str
        All labels of the example; training never saw them.
    """

    image: NDArray[np.floating]
    observed: str
    recovered: tuple[tuple[str, float], ...]
    true: tuple[str, ...]

    @property
    def guesses(self) -> list[Mark]:
        """The recovered labels, right or wrong."""
        return [Mark(name, "right" if name in self.true else "wrong", share) for name, share in self.recovered]

    @property
    def truth(self) -> list[Mark]:
        """The true labels: observed, among the guesses, or missed by them."""
        named = {name for name, _ in self.recovered}
        return [
            Mark(name, "observed" if name == self.observed else "right" if name in named else "missed")
            for name in self.true
        ]


def top_labels(
    confidence: NDArray[np.floating], observed: NDArray[np.integer], names: list[str], n_labels: int
) -> tuple[tuple[str, float], ...]:
    """Return the most likely labels of a row beside the observed ones, best first.

    Parameters
    ----------
    confidence, observed : arrays of shape (n_labels,)
        A row of ``soft_labels_`` and of the labels that training saw.
    names : list of str
    n_labels : int
        How many to return.
    """
    order = np.argsort(-np.where(observed > 0, -np.inf, confidence), kind="stable")
    hidden = [int(column) for column in order if not observed[column] > 0]
    return tuple((names[column], float(confidence[column])) for column in hidden[:n_labels])


def png_address(image: NDArray[np.floating]) -> str:
    """Return a picture with values from 0 (white) to 1 (black) as ``data:image/png;base64,…``."""
    pillow = require("PIL.Image", extra="plot", purpose="writing the report")
    stream = BytesIO()
    pillow.fromarray(np.round(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)).save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


#: What each measure means, in one sentence.
_MEANING = {
    "average_precision": "how cleanly the true labels come first when all are ranked",
    "one_error": "share of pictures whose top-ranked label is wrong",
    "ranking_loss": "share of (true, false) label pairs ranked the wrong way round",
    "coverage": "how far down the ranking one must go to meet all true labels",
    "hamming_loss": "share of yes/no answers that are wrong at a probability of ½",
}

#: What each measure is called on the page, and that sentence.
METRIC_TEXT: dict[str, tuple[str, str]] = {key: (METRIC_TITLES[key], text) for key, text in _MEANING.items()}


def summarise(
    scores: "pd.DataFrame",
    histories: Mapping[str, Sequence["History"]],
    examples: Sequence[Example],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Gather what the page shows.

    Parameters
    ----------
    scores : DataFrame
        One row per run: ``method``, ``name``, ``full_labels`` (trained on all labels), ``seed``, ``seconds`` and the
        five measures. Methods are shown in the order in which they first come.
    histories : mapping of method key to the histories of its runs
    examples : sequence of Example
    facts : mapping
        Sizes, settings and recovery figures; shown as they are.
    """
    metrics = [_metric(key) for key in METRICS]
    methods = [_method(key, part) for key, part in scores.groupby("method", sort=False)]
    for metric in metrics:
        _mark_best(methods, metric)
    return {
        "facts": dict(facts),
        "metrics": metrics,
        "methods": methods,
        "verdict": verdict({method["key"]: method for method in methods}),
        "curves": {
            method["key"]: _curves(histories[method["key"]]) for method in methods if histories.get(method["key"])
        },
        "examples": [_example(number, example) for number, example in enumerate(examples, start=1)],
    }


def _metric(key: str) -> dict[str, Any]:
    name, meaning = METRIC_TEXT[key]
    higher = higher_is_better(key)
    return {
        "key": key,
        "name": name,
        "meaning": meaning,
        "higher": higher,
        "arrow": "↑" if higher else "↓",
        "direction": "higher is better" if higher else "lower is better",
    }


def _method(key: Any, runs: "pd.DataFrame") -> dict[str, Any]:
    first = runs.iloc[0]
    cells = {}
    for metric in METRICS:
        values = runs[metric].to_numpy(dtype=float)
        # The spread of one run is unknown, not zero.
        spread = float(values.std(ddof=1)) if len(values) > 1 else None
        cells[metric] = {"mean": float(values.mean()), "spread": spread, "best": False}
    return {
        "key": str(key),
        "name": str(first["name"]),
        "full_labels": bool(first["full_labels"]),
        "runs": len(runs),
        "seconds": float(runs["seconds"].mean()),
        "cells": cells,
    }


def _mark_best(methods: list[dict[str, Any]], metric: Mapping[str, Any]) -> None:
    """Mark the best of the methods that saw one label each: full supervision is not in the competition."""
    competing = [method["cells"][metric["key"]] for method in methods if not method["full_labels"]]
    if competing:
        choose = max if metric["higher"] else min
        choose(competing, key=lambda cell: cell["mean"])["best"] = True


def _curves(histories: Sequence["History"]) -> list[dict[str, Any]]:
    """One record per run: the validation score and each loss by epoch, and which epoch was kept."""
    return [
        {
            "validation": [float(value) for value in history["valid_average_precision"] if value is not None],
            "loss": [float(value) for value in history["loss"] if value is not None and np.isfinite(value)],
            "best_epoch": history.facts.get("best_epoch"),
        }
        for history in histories
    ]


def _example(number: int, example: Example) -> dict[str, Any]:
    return {
        "number": number,
        "image": png_address(example.image),
        "observed": example.observed,
        "guesses": [
            {"label": mark.label, "status": mark.status, "sign": mark.sign, "present": mark.present}
            | {"percent": round(100 * (mark.confidence or 0.0))}
            for mark in example.guesses
        ],
        "truth": [{"label": mark.label, "status": mark.status, "sign": mark.sign} for mark in example.truth],
    }

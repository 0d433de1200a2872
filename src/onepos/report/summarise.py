"""From results to the plain values that the page shows: everything here could be written as JSON."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos.metrics import METRIC_TITLES, METRICS, higher_is_better
from onepos.report.example import Example
from onepos.report.picture import png_address
from onepos.report.words import verdict

if TYPE_CHECKING:
    import pandas as pd

    from onepos.training import History

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
        One row a run: ``method``, ``name``, ``full_labels`` (trained on all labels), ``seed``, ``seconds`` and the five
        measures. Methods are shown in the order in which they first come.
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
    """One record a run: the validation score and each loss by epoch, and which epoch was kept."""
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

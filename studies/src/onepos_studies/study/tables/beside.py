"""Two values side by side: ours and the paper's, and both selection rules."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import product
from typing import Unpack

import pandas as pd

from onepos.metrics import METRIC_TITLES, METRICS
from onepos_studies.study.tables.grid import NOTHING, Cell, Grid, mean_std, metric_title, short
from onepos_studies.study.tables.main_table import SELECTIONS, Summary, Which, main_table

#: The paper's name of a method → its key here.
PAPER_METHODS: Mapping[str, str] = {
    name: name.lower() for name in ("AN", "AN-LS", "WAN", "ROLE", "GLOCAL", "MLML", "D2ML", "SMILE", "SMILE-SI")
}

#: A data set with the paper's labels and other features → the paper's data set.
SUBSTITUTES: Mapping[str, str] = {
    "iaprtc12-hue": "iaprtc12",
    "espgame-hue": "espgame",
    "mirflickr-tags": "mirflickr",
}


def load_published() -> pd.DataFrame:
    """Return the 540 means and standard deviations of Xu et al. (NeurIPS 2022), each over five trials.

    Columns: ``metric``, ``dataset``, ``method`` (a key), ``mean``, ``std`` and ``table`` ("comparison" or "ablation").
    """
    source = resources.files("onepos_studies.study.tables").joinpath("published", "smile2022.csv")
    with source.open(encoding="utf-8") as file:
        frame = pd.read_csv(file)
    frame["metric"] = frame["metric"].map({title: key for key, title in METRIC_TITLES.items()})
    frame["method"] = frame["method"].map(PAPER_METHODS)
    return frame


@cache
def _published() -> dict[tuple[str, str, str], tuple[float, float]]:
    frame = load_published().set_index(["metric", "dataset", "method"])[["mean", "std"]]
    return {key: (mean, std) for key, mean, std in frame.itertuples(name=None)}


def published_value(metric: str, dataset: str, method: str) -> tuple[float, float] | None:
    """Return the paper's mean and standard deviation for a data set (or its substitute); None if it has none."""
    return _published().get((metric, SUBSTITUTES.get(dataset, dataset), method))


_PAIR = ["metric", "dataset", "method", "mean", "std", "count", "paper_mean", "paper_std", "difference", "in_stds"]


def compare(results: pd.DataFrame, *, metrics: Sequence[str] = METRICS, **which: Unpack[Which]) -> Grid:
    """Set our means beside the paper's, wherever both exist; ``which`` are parameters of ``main_table``."""
    rows, numbers, trials = [], [], 0
    for metric in metrics:
        values = main_table(results, metric, **which)
        trials = values.expected_trials
        for dataset, method in product(values.datasets, values.methods):
            ours, theirs = values.cells[dataset, method], published_value(metric, dataset, method)
            if theirs is None or not ours.count:
                continue
            difference, same = ours.mean - theirs[0], values.features[dataset] == "paper"
            far = in_stds(difference, ours.std, theirs[1])
            numbers.append((metric, dataset, method, ours.mean, ours.std, ours.count, *theirs, difference, far, same))
            texts = (mean_std(*theirs), short(difference, sign=True), _stds(far), "paper" if same else "other")
            rows.append((Cell(metric_title(metric)), Cell(dataset), Cell(method), ours.shown(), *map(Cell, texts)))
    data = pd.DataFrame(numbers, columns=[*_PAIR, "same_features"])
    notes = [
        f"Mean±std over {trials} trials here, five in the paper, on other splits; settings selected on "
        f"{which.get('selection', 'clean')} validation labels. In stds: difference / √((s₁² + s₂²) / 2)."
    ]
    if (data["count"] < trials).any():
        notes.append(f"†n: only n of {trials} trials are finished.")
    if not data["same_features"].all():
        notes.append("other features: not the paper's, so that the difference says nothing about the method.")
    header = ("metric", "data set", "method", "ours", "paper", "difference", "in stds", "features")
    return Grid("Ours beside the paper's", header, tuple(rows), tuple(notes), text_columns=3, data=data)


def in_stds(difference: float, first: float, second: float) -> float:
    """Divide a difference by the pooled standard deviation √((s₁² + s₂²) / 2).

    No difference is 0 whatever the spread; a difference without any spread is infinite.
    """
    pooled = math.sqrt((first**2 + second**2) / 2)
    # What is left of the subtraction of equal values is no difference, and no infinite one.
    if abs(difference) < 1e-12:
        return 0.0
    return math.copysign(math.inf, difference) if pooled == 0 else difference / pooled


def _stds(value: float) -> str:
    text = NOTHING if math.isnan(value) else f"{value:+.1f}".replace("inf", "∞")
    return "0.0" if text in ("+0.0", "-0.0") else text


def selection_table(results: pd.DataFrame, metric: str = "average_precision", **which: Unpack[Which]) -> Grid:
    """Set the two selection rules side by side; ``which`` are parameters of ``main_table`` except ``selection``.

    Settings selected on single positives are those of real use. The last lines are means over the data sets on which
    both rules have all their trials.
    """
    if "trial" in results and which.get("expected_trials") is None:
        # One number of trials for both: a rule that has run fewer must not pass as complete.
        which["expected_trials"] = int(results["trial"].nunique())
    clean, single = (main_table(results, metric, **(which | {"selection": rule})) for rule in SELECTIONS)
    datasets, methods = dict.fromkeys(clean.datasets + single.datasets), dict.fromkeys(clean.methods + single.methods)
    rows, numbers = [], []
    for key in product(datasets, methods):
        both = clean.cells.get(key, Summary()), single.cells.get(key, Summary())
        if both[0].count or both[1].count:
            difference, complete = both[1].mean - both[0].mean, both[0].complete and both[1].complete
            numbers.append((metric, *key, both[0].mean, both[1].mean, difference, complete))
            rows.append((*map(Cell, key), both[0].shown(), both[1].shown(), Cell(short(difference, sign=True))))
    columns = ["metric", "dataset", "method", "clean_mean", "single_positive_mean", "difference", "complete"]
    data = pd.DataFrame(numbers, columns=columns)
    means = data[data["complete"]].groupby("method", sort=False)["difference"].mean()
    rows += [tuple(map(Cell, ("mean", str(name), "", "", short(mean, sign=True)))) for name, mean in means.items()]
    notes = [
        f"Mean±std over {clean.expected_trials} trials; settings and epoch selected on validation rows with all "
        "their labels (clean) or with one positive label each (single-positive)."
    ]
    if not data["complete"].all():
        notes.append(f"†n: only n of {clean.expected_trials} trials are finished.")
    title = f"{metric_title(metric)} by what selects the setting"
    header = ("data set", "method", *SELECTIONS, "difference")
    return Grid(title, header, tuple(rows), tuple(notes), text_columns=2, data=data)

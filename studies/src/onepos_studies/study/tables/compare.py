"""Our results beside the paper's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from itertools import product
from types import MappingProxyType
from typing import Unpack

import pandas as pd

from onepos.metrics import METRIC_TITLES, METRICS
from onepos_studies.study.tables.formats import NOTHING, Cell, Grid, mean_std, metric_title, name_of, short
from onepos_studies.study.tables.main_table import Summary, Which, main_table

#: The paper's name of a method → its key here.
PAPER_METHODS: Mapping[str, str] = MappingProxyType(
    {name: name.lower() for name in ("AN", "AN-LS", "WAN", "ROLE", "GLOCAL", "MLML", "D2ML", "SMILE", "SMILE-SI")}
)

#: A data set with the paper's labels and other features → the paper's data set.
SUBSTITUTES: Mapping[str, str] = MappingProxyType(
    {"iaprtc12-hue": "iaprtc12", "espgame-hue": "espgame", "mirflickr-tags": "mirflickr"}
)


def load_published() -> pd.DataFrame:
    """Return the 540 means and standard deviations of Xu et al. (NeurIPS 2022), each over five trials.

    Columns: ``metric``, ``dataset``, ``method`` (a key), ``mean``, ``std`` and ``table`` ("comparison" or "ablation").

    Examples
    --------
    >>> paper = load_published().set_index(["metric", "dataset", "method"])
    >>> float(paper.loc[("average_precision", "scene", "smile"), "mean"])
    0.841
    """
    source = resources.files("onepos_studies.study.tables").joinpath("published", "smile2022.csv")
    with source.open(encoding="utf-8") as file:
        frame = pd.read_csv(file)
    frame["metric"] = frame["metric"].map({title: key for key, title in METRIC_TITLES.items()})
    frame["method"] = frame["method"].map(PAPER_METHODS)
    return frame


def published_value(metric: str, dataset: str, method: str) -> tuple[float, float] | None:
    """Return the paper's mean and standard deviation for a data set (or its substitute); None if it has none.

    Examples
    --------
    >>> published_value("average_precision", "espgame-hue", "smile"), published_value("coverage", "scene", "forest")
    ((0.259, 0.003), None)
    """
    return _values().get((metric, SUBSTITUTES.get(dataset, dataset), method))


@cache
def _values() -> dict[tuple[str, str, str], tuple[float, float]]:
    frame = load_published().set_index(["metric", "dataset", "method"])[["mean", "std"]]
    return {key: (mean, std) for key, mean, std in frame.itertuples(name=None)}


@dataclass(frozen=True)
class Pair:
    """One method on one data set, here and in the paper.

    ``difference`` is ours minus the paper's, ``in_stds`` the same divided by √((s₁² + s₂²) / 2). ``paper_dataset``
    differs from ``dataset`` for a substitute. Without ``same_features`` the difference says nothing about methods.
    """

    metric: str
    dataset: str
    paper_dataset: str
    method: str
    mean: float
    std: float
    count: int
    paper_mean: float
    paper_std: float
    difference: float
    in_stds: float
    same_features: bool


@dataclass(frozen=True)
class Comparison:
    """The result of :func:`compare`."""

    pairs: tuple[Pair, ...]
    selection: str
    expected_trials: int

    def frame(self) -> pd.DataFrame:
        """One row per metric, data set and method; the fields of :class:`Pair`."""
        frame = pd.DataFrame(list(self.pairs), columns=[field.name for field in fields(Pair)])
        return frame.assign(selection=self.selection)

    def grid(self, names: Mapping[str, str] | None = None) -> Grid:
        """One line per metric, data set and method; see :class:`onepos_studies.study.tables.Table`."""
        notes = [
            f"Mean±std over {self.expected_trials} trials here, five in the paper, on other splits; settings selected "
            f"on {self.selection} validation labels. In stds: difference / √((s₁² + s₂²) / 2)."
        ]
        if any(pair.count < self.expected_trials for pair in self.pairs):
            notes.append(f"†n: only n of {self.expected_trials} trials are finished.")
        if not all(pair.same_features for pair in self.pairs):
            notes.append("other features: not the paper's, so that the difference says nothing about the method.")
        return Grid(
            title="Ours beside the paper's",
            header=("metric", "data set", "method", "ours", "paper", "difference", "in stds", "features"),
            rows=tuple(self._row(pair, names) for pair in self.pairs),
            notes=tuple(notes),
            text_columns=3,
        )

    def _row(self, pair: Pair, names: Mapping[str, str] | None) -> tuple[Cell, ...]:
        ours = Summary(pair.mean, pair.std, pair.count, pair.count >= self.expected_trials)
        in_stds = NOTHING if math.isnan(pair.in_stds) else f"{pair.in_stds:+.1f}".replace("inf", "∞")
        return (
            Cell(metric_title(pair.metric)),
            Cell(pair.dataset),
            Cell(name_of(pair.method, names)),
            ours.shown(),
            Cell(mean_std(pair.paper_mean, pair.paper_std)),
            Cell(short(pair.difference, sign=True)),
            Cell("0.0" if in_stds in ("+0.0", "-0.0") else in_stds),
            Cell("paper" if pair.same_features else "other"),
        )


def compare(results: pd.DataFrame, *, metrics: Sequence[str] = METRICS, **which: Unpack[Which]) -> Comparison:
    """Set our means beside the paper's, wherever both exist; ``which`` are parameters of ``main_table``.

    Examples
    --------
    >>> from onepos_studies.study.tables import example_results
    >>> pair = compare(example_results(), metrics=["average_precision"]).pairs[0]
    >>> pair.dataset, pair.method, round(pair.difference, 3), round(pair.in_stds, 2)
    ('scene', 'smile', -0.011, -0.22)
    """
    pairs, trials = [], 0
    for metric in metrics:
        values = main_table(results, metric, **which)
        trials = values.expected_trials
        for dataset, method in product(values.datasets, values.methods):
            ours, theirs = values.cells[dataset, method], published_value(metric, dataset, method)
            if theirs is None or not ours.count:
                continue
            difference = ours.mean - theirs[0]
            known = (metric, dataset, SUBSTITUTES.get(dataset, dataset), method, ours.mean, ours.std, ours.count)
            far, same = in_stds(difference, ours.std, theirs[1]), values.features[dataset] == "paper"
            pairs.append(Pair(*known, theirs[0], theirs[1], difference, far, same))
    return Comparison(tuple(pairs), which.get("selection", "clean"), trials)


def in_stds(difference: float, first: float, second: float) -> float:
    """Divide a difference by the pooled standard deviation √((s₁² + s₂²) / 2).

    No difference is 0 whatever the spread; a difference without any spread is infinite.

    Examples
    --------
    >>> in_stds(0.02, 0.01, 0.01), in_stds(0.0, 0.0, 0.0), in_stds(-0.1, 0.0, 0.0)
    (2.0, 0.0, -inf)
    """
    pooled = math.sqrt((first**2 + second**2) / 2)
    # What is left of the subtraction of equal values is no difference, and no infinite one.
    if abs(difference) < 1e-12:
        return 0.0
    return math.copysign(math.inf, difference) if pooled == 0 else difference / pooled

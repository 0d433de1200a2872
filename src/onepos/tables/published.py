"""The paper's printed results, under this library's names."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

import pandas as pd

from onepos.metrics import METRIC_TITLES

#: The paper's name of a method → its key here.
PAPER_METHODS: Mapping[str, str] = MappingProxyType(
    {
        "AN": "an",
        "AN-LS": "an-ls",
        "WAN": "wan",
        "ROLE": "role",
        "GLOCAL": "glocal",
        "MLML": "mlml",
        "D2ML": "d2ml",
        "SMILE": "smile",
        "SMILE-SI": "smile-si",
    }
)

#: A data set with the paper's labels and other features → the paper's data set.
SUBSTITUTES: Mapping[str, str] = MappingProxyType(
    {"iaprtc12-hue": "iaprtc12", "espgame-hue": "espgame", "mirflickr-tags": "mirflickr"}
)


def load_published() -> pd.DataFrame:
    """Return the 540 means and standard deviations of Xu et al. (NeurIPS 2022), each over five trials.

    Returns
    -------
    DataFrame
        ``metric``, ``dataset``, ``method`` (a key), ``mean``, ``std`` and ``table`` ("comparison" or "ablation").

    Examples
    --------
    >>> paper = load_published().set_index(["metric", "dataset", "method"])
    >>> float(paper.loc[("average_precision", "scene", "smile"), "mean"])
    0.841
    """
    return _published().copy()


def paper_dataset(dataset: str) -> str:
    """Return the paper's name of a data set: another one for a substitute, else its own.

    Examples
    --------
    >>> paper_dataset("espgame-hue"), paper_dataset("scene")
    ('espgame', 'scene')
    """
    return SUBSTITUTES.get(dataset, dataset)


def published_value(metric: str, dataset: str, method: str) -> tuple[float, float] | None:
    """Return the paper's mean and standard deviation for a data set (or its substitute); None if it has none.

    Examples
    --------
    >>> published_value("average_precision", "espgame-hue", "smile"), published_value("coverage", "scene", "linear")
    ((0.259, 0.003), None)
    """
    return _values().get((metric, paper_dataset(dataset), method))


@cache
def _values() -> dict[tuple[str, str, str], tuple[float, float]]:
    columns = _published()[["metric", "dataset", "method", "mean", "std"]].itertuples(index=False, name=None)
    return {(metric, dataset, method): (mean, std) for metric, dataset, method, mean, std in columns}


@cache
def _published() -> pd.DataFrame:
    source = resources.files("onepos.tables").joinpath("published", "smile2022.csv")
    with source.open(encoding="utf-8") as file:
        frame = pd.read_csv(file)
    frame["metric"] = frame["metric"].map({title: key for key, title in METRIC_TITLES.items()})
    frame["method"] = frame["method"].map(PAPER_METHODS)
    return frame

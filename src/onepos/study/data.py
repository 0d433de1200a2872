"""Data for a cell: a named data set or an embedded one, split by trial, with one positive a row."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.datasets import (
    list_datasets,
    load_dataset,
    make_digit_scenes,
    make_known_posterior,
    make_single_positive,
    split,
)

#: Data sets that need no file, and their numbers of rows.
EMBEDDED = {"digit-scenes": 1000, "known-posterior": 1000}


@dataclass(frozen=True)
class Trial:
    """The three parts of a trial; ``observed`` and ``observed_val`` show one positive a row."""

    X_train: Any
    Y_train: NDArray[np.uint8]
    observed: NDArray[np.uint8]
    X_val: Any
    Y_val: NDArray[np.uint8]
    observed_val: NDArray[np.uint8]
    X_test: Any
    Y_test: NDArray[np.uint8]


def known_datasets() -> list[str]:
    """Return every name that a study may use."""
    return [*EMBEDDED, *_registered().index]


def matches_paper(name: str) -> bool:
    """Tell whether a data set has the paper's features; substitutes and embedded ones have others."""
    return name not in EMBEDDED and bool(_registered().loc[name, "matches_paper"])


def n_rows(name: str) -> int:
    """Return the number of rows without loading the data set."""
    return EMBEDDED[name] if name in EMBEDDED else int(_registered().loc[name, "instances"])


@lru_cache(maxsize=1)
def _registered() -> Any:
    return list_datasets().set_index("name")


@lru_cache(maxsize=2)
def data_set(name: str) -> tuple[Any, Any]:
    """Return features and complete labels; the last two sets are kept, for cells that follow each other."""
    if name == "digit-scenes":
        scenes = make_digit_scenes(EMBEDDED[name], random_state=0)
        return scenes.X, scenes.Y
    if name == "known-posterior":
        data = make_known_posterior(EMBEDDED[name], 10, 8, random_state=0)
        return data.X, data.Y
    data = load_dataset(name)
    return data.X, data.Y


@lru_cache(maxsize=2)
def load_trial(
    name: str, seed: int, trial: int, fractions: tuple[float, float, float], positive_rule: str, train_fraction: float
) -> Trial:
    """Split a data set for a trial and draw its positives; the last two are kept, for cells that follow each other.

    Part of the training rows is always the beginning of the same random order, so that smaller parts are in larger ones
    and validation and test rows never change.
    """
    X, Y = data_set(name)
    parts = split(X, Y, fractions=fractions, random_state=seed + trial)
    rule: Any = positive_rule
    observed: Any = make_single_positive(parts.Y_train, selection=rule, random_state=seed + 1000 + trial)
    observed_val: Any = make_single_positive(parts.Y_val, selection=rule, random_state=seed + 2000 + trial)
    n = max(2, round(train_fraction * len(observed)))
    return Trial(
        parts.X_train[:n],
        parts.Y_train[:n],
        observed[:n],
        parts.X_val,
        parts.Y_val,
        observed_val,
        parts.X_test,
        parts.Y_test,
    )

"""What the checks share: small data with known truth, and expectations about errors and warnings."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pandas as pd
from sklearn.base import clone

from onepos.datasets import make_known_posterior
from onepos.methods._base import OnePositiveClassifier

Check = Callable[[OnePositiveClassifier], None]
NAMES = ["red", "green", "blue", "grey"]
N_ROWS, N_FEATURES = 120, 5


@cache
def example() -> Any:
    """120 rows, five features, four labels; X, Y and observed must not be written to."""
    data = make_known_posterior(N_ROWS, N_FEATURES, len(NAMES), random_state=2)
    for array in (data.X, data.Y, data.observed):
        array.flags.writeable = False  # an estimator that writes to its input fails here
    return data


def target(estimator: OnePositiveClassifier) -> Any:
    """Return the labels that the estimator learns from: complete ones for full supervision, else one a row."""
    return example().Y if estimator._y_is_full else example().observed


def fitted(estimator: OnePositiveClassifier, X: Any = None, Y: Any = None) -> Any:
    """Fit a clone, on the example unless other data are given."""
    X = example().X if X is None else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(X, target(estimator) if Y is None else Y)


def named(values: Any) -> pd.DataFrame:
    """Return labels as a frame with their names as columns."""
    return pd.DataFrame(values, columns=NAMES)


@contextmanager
def expect(kinds: type[Exception] | tuple[type[Exception], ...], pattern: str, doing: str) -> Iterator[None]:
    """Require an error of these kinds whose message matches."""
    said = None
    try:
        yield
    except kinds as error:
        said = str(error)
    assert said is not None, f"{doing} must raise an error that says /{pattern}/; nothing was raised."
    assert re.search(pattern, said), f"{doing}: the message does not say /{pattern}/: {said}"


@contextmanager
def expect_warning(kind: type[Warning], pattern: str, doing: str) -> Iterator[None]:
    """Require a warning of this kind whose message matches."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    said = [str(w.message) for w in caught if issubclass(w.category, kind)]
    assert any(re.search(pattern, text) for text in said), f"{doing} must warn /{pattern}/; it warned {said}."

"""What is trained on: the data sets with one positive per row, and made-up problems of any size."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
from harness import left_out
from numpy.typing import NDArray


@cache
def available() -> frozenset[str]:
    """Return the names of the data sets that are in the data folder."""
    from onepos_studies.datasets import list_datasets

    return frozenset(list_datasets().query("available")["name"])


def on_each(names: Iterable[str], measure: Callable[[str], Iterator[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """What ``measure`` yields for every data set that is there, and a word on every one that is not."""
    for name in names:
        if name in available():
            yield from measure(name)
        else:
            yield left_out(name)


def load(name: str) -> Any:
    """Return a data set; what its reader warns about is known and not the matter here."""
    from onepos_studies.datasets import load_dataset

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_dataset(name, offline=True)


@cache
def single_positive(name: str) -> tuple[Any, NDArray[np.int8]]:
    """All rows of a data set: features as they come, one observed positive per row."""
    from onepos.datasets import make_single_positive

    data = load(name)
    return data.X, make_single_positive(data.Y, random_state=0)


def dense_features(name: str) -> NDArray[np.float32]:
    """The features of a data set as a network sees them: scaled, float32, dense."""
    from onepos.rows.scaling import fit_scaler
    from onepos.training.objective import as_features

    X, _ = single_positive(name)
    return as_features(fit_scaler(X, "auto").transform(X)).numpy()


def mixture(n: int, q: int, *, seed: int = 0, n_centres: int = 200) -> NDArray[np.float32]:
    """n points around Gaussian centres: neighbours mean something, as in real features and unlike plain noise.

    Made in parts, so that making them sets no memory peak.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_centres, q), dtype=np.float32)
    X = np.empty((n, q), dtype=np.float32)
    for start in range(0, n, 10_000):
        part = X[start : start + 10_000]
        rng.standard_normal(out=part, dtype=np.float32)
        part *= 0.5
        part += centres[rng.integers(n_centres, size=len(part))]
    return X


def one_label_each(n: int, c: int, *, seed: int = 0) -> NDArray[np.int8]:
    """One observed positive a row, at random: what the labels say does not change the time of an epoch."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((n, c), dtype=np.int8)
    Y[np.arange(n), rng.integers(c, size=n)] = 1
    return Y

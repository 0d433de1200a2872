"""What a training run is, in a few values.

By them processes notice that they were given different data, and a checkpoint that it belongs to another run.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from onepos._validation import Labels
from onepos.dataset_rows import DatasetRows
from onepos.scaling import FeatureScaler
from onepos.training import Processes

#: Settings that change how a run is shown or where it computes, not what it computes.
_NO_MATTER = ("verbose", "random_state", "device", "cache_folder")

#: Rows whose features are looked at.
_SAMPLE = 64


def check_same_data(X: Any, labels: Labels, processes: Processes) -> None:
    """Raise unless all processes were given the same number of rows and features, and the same labels."""
    if processes.size == 1:
        return
    everyones = processes.gather_values((*X.shape, *labels.observed.shape[1:], _hash(labels.observed)))
    if len(set(everyones)) > 1:
        rows = ", ".join(f"{found[0]} rows of {found[1]} features" for found in everyones)
        raise ValueError(
            f"every process must be given the same X and y, all rows of them, and reads what it needs; they got "
            f"{rows}, or labels that differ. Pass the whole memory-mapped array in each process."
        )


def run_identity(
    estimator: Any, seed: int, X: Any, labels: Labels, trainable: NDArray[np.intp], scaler: FeatureScaler
) -> dict[str, Any]:
    """Return JSON-able values that differ between runs that would not end in the same model."""
    settings = {
        f"setting {name}": _text(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NO_MATTER
    }
    scaling = [values for values in (scaler.shift, scaler.factor) if values is not None]
    return {
        "method": type(estimator).__name__,
        "seed": seed,
        **settings,
        "number of rows": int(X.shape[0]),
        "number of features": int(X.shape[1]),
        "labels": _hash(labels.observed),
        "rows trained on": _hash(trainable),
        "features": _hash(*scaling, *_some_rows(X)),
    }


def _some_rows(X: Any) -> list[NDArray[Any]]:
    """A few rows across the data; none of a Dataset, whose items may be drawn at random."""
    if isinstance(X, DatasetRows):
        return []
    index = np.unique(np.linspace(0, X.shape[0] - 1, _SAMPLE).astype(np.int64))
    if hasattr(X, "indptr"):
        return [X[index].toarray()]
    return [np.asarray(X[index])]


def _hash(*arrays: NDArray[Any]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(repr((array.dtype.str, array.shape)).encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def _text(value: Any) -> str:
    """Describe a setting the same way in every process: without addresses in memory."""
    if callable(value) and not isinstance(value, nn.Module):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return repr(value)

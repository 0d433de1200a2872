"""Feature scaling that is fitted with the model, saved with it and applied at prediction."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils import storage
from onepos.rows.stored import LARGEST, DatasetRows, DiskRows, column_statistics

SCALE_KINDS: tuple[str, ...] = ("auto", "standard", "minmax", "none")


@dataclass(frozen=True)
class FeatureScaler:
    """``(x − shift) · factor`` per column; ``kind`` is "standard", "minmax", or "none", which has neither."""

    _stored: ClassVar[storage.Rules] = {
        "kind": storage.one_of("standard", "minmax", "none"),
        "shift": storage.Maybe(storage.Array("features", "f8")),
        "factor": storage.Maybe(storage.Array("features", "f8")),
    }

    kind: str
    shift: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        if {fields[name] is None for name in ("shift", "factor")} != {fields["kind"] == "none"}:
            raise ValueError("shift and factor must be arrays, and missing if kind is none")
        return cls(**fields)

    def transform(self, X: Any) -> Any:
        """Scale ``X`` (n_samples, n_features) to float32; CSR stays CSR (its shift is zero), disk stays on disk.

        Raise ValueError if a scaled feature is beyond the range of float32.
        """
        if isinstance(X, DiskRows):
            return X.scaled(self.transform)
        if isinstance(X, DatasetRows):
            return X if self.factor is None else X.scaled(self.transform)
        if self.factor is None or self.shift is None:
            return single_precision(X)
        with np.errstate(over="ignore"):  # single_precision says it
            scaled = X.multiply(self.factor[None, :]).tocsr() if sparse.issparse(X) else (X - self.shift) * self.factor
        return single_precision(scaled)


def check_magnitude(X: Any) -> Any:
    """Return dense or CSR features; raise ValueError if one is beyond the range of float32, or is no number."""
    values = X.data if sparse.issparse(X) else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not largest <= LARGEST:
        raise ValueError(
            f"expected features between {-LARGEST:.2g} and {LARGEST:.2g}, the range of float32; the largest is "
            f"{largest:.3g} in magnitude. Divide such columns by a constant, or correct them."
        )
    return X


def single_precision(scaled: Any) -> Any:
    """Return scaled features in float32, in which networks are trained; all are finite."""
    with np.errstate(over="ignore"):
        values = scaled.astype(np.float32) if sparse.issparse(scaled) else np.ascontiguousarray(scaled, np.float32)
    finite = np.isfinite(values.data if sparse.issparse(values) else values)
    if not finite.all():
        raise ValueError(
            f"expected features that stay below {LARGEST:.2g} after scaling, the range of float32; {(~finite).sum():,} "
            "do not: they are far outside of the range of the training rows. Correct them."
        )
    return values


def fit_scaler(X: Any, kind: str) -> FeatureScaler:
    """Learn the scaling of ``X`` (dense, CSR, or rows on disk, which are read once).

    "auto" leaves sparse and 0/1 features, such as bags of words, alone, and standardises everything else. "standard":
    zero mean, unit variance. "minmax": the range becomes [0, 1]. Sparse columns are never shifted: "standard" divides
    them by the root mean square, "minmax" by the largest magnitude. Items of a Dataset stay.
    """
    if isinstance(X, DatasetRows):
        if kind not in ("auto", "none"):
            raise ValueError(
                f"the items of a Dataset are taken as they are: scale must be 'auto' or 'none', got {kind!r}. Scale x "
                "in the Dataset, or begin the network with a normalising layer."
            )
        return FeatureScaler("none")
    if kind == "auto":
        kind = "none"
        for _, values in X.blocks() if isinstance(X, DiskRows) else [(slice(None), X)]:
            if not sparse.issparse(values) and not np.all((values == 0) | (values == 1)):
                kind = "standard"
                break
    if kind == "none":
        return FeatureScaler("none")
    if sparse.issparse(X):
        shift = np.zeros(X.shape[1])
        if kind == "standard":
            spread = np.sqrt(np.asarray(X.multiply(X).mean(axis=0), dtype=np.float64).ravel())
        else:
            spread = np.asarray(abs(X).max(axis=0).toarray(), dtype=np.float64).ravel()
    elif isinstance(X, DiskRows):
        mean, deviation, low, high = column_statistics(X)
        shift, spread = (mean, deviation) if kind == "standard" else (low, high - low)
    elif kind == "standard":
        shift, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    else:
        shift = X.min(axis=0).astype(np.float64)
        spread = X.max(axis=0).astype(np.float64) - shift
    # A column that is constant up to rounding has a spread of noise: dividing by it would make features of noise, and
    # dividing by nothing would leave the rounding of a huge constant. Its own magnitude turns both into about zero.
    magnitude = np.maximum(np.abs(shift), 1.0)
    some = np.where(spread > np.finfo(np.float64).tiny, spread, 1.0)  # the inverse of less is infinite
    factor = 1.0 / np.where(spread > 1e-10 * np.abs(shift), some, magnitude)
    return FeatureScaler(kind, shift, factor)

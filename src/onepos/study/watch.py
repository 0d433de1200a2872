"""What a study measures beside the scores, for pictures alone: test scores by epoch, how D settles, how true D is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from onepos.features import as_features
from onepos.metrics import average_precision
from onepos.training import Callback, Objective

_ROWS = 4096


class TestCurve(Callback):
    """Average precision on the test rows after each epoch. Nothing is chosen by it."""

    __test__ = False  # not a test case, whatever its name begins with

    def __init__(self, X: Any, Y: NDArray[np.uint8]) -> None:
        self.X, self.Y = X, Y
        self.values: list[float] = []
        self.features: Any = None
        self.model: Any = None

    def attach(self, model: Any) -> None:
        """Note the model whose scaler the test rows need."""
        self.model = model

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Score the network as it is."""
        if self.features is None:
            self.features = as_features(self.model.scaler_.transform(self.X))
        with torch.no_grad():
            logits = objective.network(self.features)
        self.values.append(average_precision(self.Y, logits.numpy().astype(np.float64)))

    def extra(self) -> dict[str, Any]:
        """Return the curve."""
        return {"test_curve": self.values}


class SoftLabelChange(Callback):
    """Mean |D_t − D_{t−1}| over all training entries after each epoch, for methods with a ``soft_labels`` of rows."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.last: torch.Tensor | None = None

    def attach(self, model: Any) -> None:
        """Need nothing of the model."""

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Compare D with that of the epoch before."""
        enhancement = getattr(objective, "enhancement", None)
        if enhancement is None:
            return
        now = _soft_labels(enhancement.encoder)
        if self.last is not None:
            self.values.append(float((now - self.last).abs().mean()))
        self.last = now

    def extra(self) -> dict[str, Any]:
        """Return the changes, and let D go."""
        self.last = None
        return {"soft_label_change": self.values}


@torch.no_grad()
def _soft_labels(encoder: Any) -> torch.Tensor:
    rows = torch.arange(len(encoder.neighborhoods))
    parts = [encoder(part) for part in torch.split(rows, _ROWS)]
    return torch.cat([torch.sigmoid(log_alpha - log_beta) for log_alpha, log_beta in parts])


def calibration(
    soft: NDArray[np.float32], truth: NDArray[np.uint8], observed: NDArray[np.uint8], n_bins: int = 10
) -> dict[str, list[float]]:
    """How often a label is there, by how sure D is of it: unobserved entries in bins of equal width.

    Returns
    -------
    dict
        ``confidence`` (mean of D), ``frequency`` (share that is there) and ``count`` of each bin that is not empty.
    """
    hidden = np.asarray(observed) == 0
    values, present = np.asarray(soft)[hidden].astype(np.float64), np.asarray(truth)[hidden]
    bins = np.minimum((values * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    filled = count > 0
    confidence = np.bincount(bins, values, n_bins)[filled] / count[filled]
    frequency = np.bincount(bins, present, n_bins)[filled] / count[filled]
    return {"confidence": confidence.tolist(), "frequency": frequency.tolist(), "count": count[filled].tolist()}

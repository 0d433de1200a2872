"""Calibrated probabilities, learnt from a small sample with complete labels.

Single positives leave the scale of probabilities open (see ``thresholds``). A sample fixes it: each logit z of label j
becomes a·z + b + o_j, fitted by maximum likelihood on all entries of the sample together.

- All labels share the slope a and the intercept b.
- The label's own offset o_j has a ridge, as if drawn from a normal distribution around 0. A label with few positives in
  the sample stays close to the other labels. The width of that distribution has the largest marginal likelihood.
- The slope has a weak ridge, so that it is finite even if the model separates the sample perfectly. It is positive, so
  the order of rows by one label stays. The order of labels within a row may change.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from onepos._utils import storage

Numbers = NDArray[np.float64]

#: Smallest sample: rows, and entries that are present and absent.
ENOUGH_ROWS, ENOUGH_ENTRIES = 10, 10
#: Standard deviations of labels' own offsets to choose from: from almost none to odds wrong by a factor of 20.
OFFSET_SPREADS = (0.03, 0.1, 0.3, 1.0, 3.0)
#: Standard deviation of the slope, for logits of standard deviation 1. It matters if the sample is separated perfectly.
SLOPE_SPREAD = 10.0

_MOST_STEPS = 100
_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Calibration:
    """The map from a model's logits to calibrated ones."""

    _stored: ClassVar[storage.Rules] = {
        "slope": storage.POSITIVE,
        "offsets": storage.Array("labels", "f8"),
        "n_rows": storage.COUNT,
        "spread": storage.POSITIVE,
    }

    slope: float  #: a, above 0; shared by all labels
    offsets: Numbers  #: b + o_j, shape (n_labels,)
    n_rows: int  #: of the sample
    spread: float  #: standard deviation of o_j, learnt from the sample

    def apply(self, logits: Numbers) -> Numbers:
        """Return calibrated logits, shape (n_samples, n_labels)."""
        result: Numbers = self.slope * logits + self.offsets
        return result


def fit_calibration(logits: ArrayLike, Y: Any) -> Calibration:
    """Learn slope and offsets from a sample with complete labels.

    Parameters
    ----------
    logits : array of shape (n_samples, n_labels)
        Logits of the model for rows that it was not trained on.
    Y : array of shape (n_samples, n_labels)
        Complete labels: above 0 present, otherwise absent.

    Raises
    ------
    ValueError
        If the sample is too small, shapes differ, or the scores do not tell present from absent labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 3))
    >>> Y = rng.random((2000, 3)) < expit(2 * logits + [1, -1, 0])
    >>> calibration = fit_calibration(logits, Y)
    >>> round(calibration.slope, 1), calibration.offsets.round(1).tolist()
    (2.0, [1.0, -1.0, -0.1])
    """
    scores, present = np.asarray(logits, dtype=np.float64), np.asarray(Y) > 0
    if scores.ndim != 2 or present.shape != scores.shape:
        raise ValueError(f"logits and Y must have the same 2-D shape; got {scores.shape} and {present.shape}.")
    if not np.isfinite(scores).all():
        raise ValueError("logits must be finite; got NaN or infinity.")
    n_present = int(present.sum())
    if len(scores) < ENOUGH_ROWS or min(n_present, present.size - n_present) < ENOUGH_ENTRIES:
        raise ValueError(
            f"calibration needs at least {ENOUGH_ROWS} rows with complete labels, and {ENOUGH_ENTRIES} labels present "
            f"and {ENOUGH_ENTRIES} absent in them; got {len(scores)} rows, {n_present} present, "
            f"{present.size - n_present} absent. Label more rows completely."
        )
    centre, spread = float(scores.mean()), float(scores.std())
    if not spread > 0:
        raise ValueError("all scores of the sample are equal: they cannot be calibrated. Train another model.")
    solutions = [_newton((scores - centre) / spread, present, width) for width in OFFSET_SPREADS]
    best = int(np.argmax([solution.evidence for solution in solutions]))
    slope, intercept, own, _ = solutions[best]
    if not slope > 0:
        raise ValueError(
            "the model ranks the labels of this sample no better than chance, so calibrating would reverse its ranking."
            " Check that the sample's rows and columns are in the order of the model's."
        )
    slope /= spread
    return Calibration(slope, intercept + own - slope * centre, len(scores), OFFSET_SPREADS[best])


class _CalibrationFit(NamedTuple):
    """For standardised logits: the slope, the intercept, labels' own offsets, and the log marginal likelihood."""

    slope: float
    intercept: float
    own: Numbers
    evidence: float


def _newton(z: Numbers, present: NDArray[np.bool_], width: float) -> _CalibrationFit:
    """Minimise the penalised log-loss by Newton's method; the Hessian is diagonal but for two shared numbers."""
    rate = present.mean()
    shared, own = np.array([1.0, np.log(rate / (1.0 - rate))]), np.zeros(z.shape[1])
    slope_weight, own_weight = SLOPE_SPREAD**-2, width**-2
    sign = np.where(present, 1.0, -1.0)

    def value(shared: Numbers, own: Numbers) -> float:
        loss = -log_expit(sign * (shared[0] * z + shared[1] + own)).sum()
        return float(loss + 0.5 * (slope_weight * shared[0] ** 2 + own_weight * (own**2).sum()))

    current = value(shared, own)
    for _ in range(_MOST_STEPS):
        p = expit(shared[0] * z + shared[1] + own)
        residual, weight = p - present, p * (1.0 - p)
        gradient = np.array([(residual * z).sum() + slope_weight * shared[0], residual.sum()])
        gradient_own = residual.sum(axis=0) + own_weight * own
        # Per label: the part of the Hessian that joins its offset with slope and intercept, and its own entry.
        joint = np.stack([(weight * z).sum(axis=0), weight.sum(axis=0)])
        entry = joint[1] + own_weight
        corner = (weight * z).sum()
        hessian = np.array([[(weight * z**2).sum() + slope_weight, corner], [corner, weight.sum()]])
        reduced = hessian - (joint / entry) @ joint.T
        step = np.linalg.solve(reduced, gradient - (joint / entry) @ gradient_own)
        step_own = (gradient_own - joint.T @ step) / entry
        decrement = float(gradient @ step + gradient_own @ step_own)
        if decrement < _TOLERANCE:
            break
        for length in 0.5 ** np.arange(34):
            loss = value(shared - length * step, own - length * step_own)
            if not loss > current - 1e-4 * length * decrement:
                break
        else:  # no better within rounding
            break
        shared, own, current = shared - length * step, own - length * step_own, loss
    # Laplace's approximation: offsets are integrated out, each a normal distribution around its mode.
    evidence = -current - 0.5 * np.log(entry / own_weight).sum()
    return _CalibrationFit(float(shared[0]), float(shared[1]), own, float(evidence))


def calibration_bins(
    soft: NDArray[np.float32], truth: NDArray[np.uint8], observed: NDArray[np.uint8], n_bins: int = 10
) -> dict[str, list[float]]:
    """Return mean soft label, share present and count of unobserved labels, in bins of the soft label, if not empty."""
    hidden = np.asarray(observed) == 0
    values, present = np.asarray(soft)[hidden].astype(np.float64), np.asarray(truth)[hidden]
    bins = np.minimum((values * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    filled = count > 0
    confidence = np.bincount(bins, values, n_bins)[filled] / count[filled]
    frequency = np.bincount(bins, present, n_bins)[filled] / count[filled]
    return {"confidence": confidence.tolist(), "frequency": frequency.tolist(), "count": count[filled].tolist()}

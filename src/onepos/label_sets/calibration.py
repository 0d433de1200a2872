"""Correction of tags that people chose, learnt from a sample with complete labels.

Tags tell which label of a row was written down, P(observed = j | x) ∝ e_j·p_j(x): people name what is striking, what
they know, what the form lists first. From tags alone, how readily a label is named, e_j, cannot be told from how
often it is true. A few complete rows tell. Each score z of label j, the model's log-share or logit, becomes

    a·z + c + d·ℓ_j + b_j + u_j·(z − ℓ_j)

with ℓ_j the log of the label's mean probability in the sample. That is one straight line per label.

- All labels share slope a, intercept c, and d, by which the label's level ℓ_j counts more or less than what a row adds.
- Offset b_j and slope u_j are the label's own. They are 0 unless the sample says otherwise: each is drawn from a normal
  distribution around 0. With b = u = d = 0 the ranking stays what it was.
- How wide these distributions are is not chosen: the lines are averaged over a grid of widths, each weighted by its
  marginal likelihood. A single choice would now and then be a bad one.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from onepos._utils import storage

Numbers = NDArray[np.float64]

#: Smallest sample: rows, and entries that are present and absent.
ENOUGH_ROWS, ENOUGH_ENTRIES = 10, 10
#: Standard deviations to average over, for scores of standard deviation 1: of labels' own offsets, of d, and of
#: labels' own slopes. The smallest ones leave the ranking as it was.
OFFSET_WIDTHS, LEVEL_WIDTHS, SLOPE_WIDTHS = (0.03, 0.3, 1.0, 3.0), (0.03, 0.1, 0.3, 1.0), (0.01, 0.1, 0.3, 0.6)
#: Standard deviation of the shared slope. It matters if the sample is separated perfectly.
SHARED_SLOPE_WIDTH = 3.0
#: Least slope of a label, as a part of the shared one: the order of rows by one label stays.
LEAST_SLOPE = 0.1

_MOST_STEPS, _MOST_HALVINGS = 100, 34
_TOLERANCE = 1e-8
#: Coefficients that all labels share: c, a, d. The other two, b and u, are the label's own.
_N_SHARED = 3


@dataclass(frozen=True, eq=False)
class Calibration:
    """The map from a model's scores to calibrated logits: one straight line per label."""

    _stored: ClassVar[storage.Rules] = {
        "slopes": storage.Array("labels", "f8", storage.TINY),
        "offsets": storage.Array("labels", "f8"),
        "n_rows": storage.COUNT,
    }

    slopes: Numbers  #: above 0, shape (n_labels,)
    offsets: Numbers  #: shape (n_labels,)
    n_rows: int  #: of the sample

    def apply(self, scores: Numbers) -> Numbers:
        """Return calibrated logits, shape (n_samples, n_labels)."""
        result: Numbers = self.slopes * scores + self.offsets
        return result

    def undo(self, logits: Numbers) -> Numbers:
        """Return the scores of calibrated logits."""
        result: Numbers = (logits - self.offsets) / self.slopes
        return result


def fit_calibration(scores: ArrayLike, Y: Any) -> Calibration:
    """Learn a line per label from a sample with complete labels.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        The model's log P(observed = j | x), or its logits, for rows that it was not trained on.
    Y : array of shape (n_samples, n_labels)
        Complete labels: above 0 present, otherwise absent.

    Raises
    ------
    ValueError
        If the sample is too small, shapes differ, or the scores do not tell present from absent labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(2000, 3))
    >>> Y = rng.random((2000, 3)) < expit(2 * scores + [1, -1, 0])
    >>> calibration = fit_calibration(scores, Y)
    >>> calibration.slopes.round(1).tolist(), calibration.offsets.round(1).tolist()
    ([2.0, 1.9, 2.0], [1.0, -1.0, -0.1])
    """
    values, present = np.asarray(scores, dtype=np.float64), np.asarray(Y) > 0
    if values.ndim != 2 or present.shape != values.shape:
        raise ValueError(f"scores and Y must have the same 2-D shape; got {values.shape} and {present.shape}.")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite; got NaN or infinity.")
    n_present = int(present.sum())
    if len(values) < ENOUGH_ROWS or min(n_present, present.size - n_present) < ENOUGH_ENTRIES:
        raise ValueError(
            f"calibration needs at least {ENOUGH_ROWS} rows with complete labels, and {ENOUGH_ENTRIES} labels present "
            f"and {ENOUGH_ENTRIES} absent in them; got {len(values)} rows, {n_present} present, "
            f"{present.size - n_present} absent. Label more rows completely."
        )
    centre, spread = float(values.mean()), float(values.std())
    if not spread > 0:
        raise ValueError("all scores of the sample are equal: they cannot be calibrated. Train another model.")
    levels = np.log(expit(values).mean(axis=0))
    shared, offsets, slopes = _average((values - centre) / spread, present, (levels - centre) / spread)
    # Below 0 the slope may only say that labels tagged often are true rarely. Rows of one label tell more.
    if not shared > 0 and ((values - values.mean(axis=0)) * present).sum() < -1e-9:
        raise ValueError(
            "the model ranks the labels of this sample no better than chance, so calibrating would reverse its ranking."
            " Check that the sample's rows and columns are in the order of the model's."
        )
    # A line that is too flat is turned about the label's level.
    steeper = np.maximum(slopes, LEAST_SLOPE * max(shared, LEAST_SLOPE))
    offsets += (slopes - steeper) * (levels - centre) / spread
    return Calibration(steeper / spread, offsets - steeper * centre / spread, len(values))


def _average(z: Numbers, present: NDArray[np.bool_], levels: Numbers) -> tuple[float, Numbers, Numbers]:
    """Return the shared slope, and offset and slope of every label, averaged over the grid of widths."""
    n_labels = z.shape[1]
    # Offset and slope of each label from c, a, d, b, u.
    design = np.zeros((n_labels, 2, _N_SHARED + 2))
    design[:, 0, 0] = design[:, 1, 1] = design[:, 0, 3] = design[:, 1, 4] = 1.0
    design[:, 0, 2], design[:, 0, 4] = levels - levels.mean(), -levels
    rate = present.mean()
    solution = _Solution(np.array([np.log(rate / (1.0 - rate)), 1.0, 0.0]), np.zeros((n_labels, 2)), 0.0)
    solutions = []
    for offset_width, level_width, slope_width in product(OFFSET_WIDTHS, LEVEL_WIDTHS, SLOPE_WIDTHS):
        widths = np.array([SHARED_SLOPE_WIDTH, level_width, offset_width, slope_width])
        # The intercept is free. The search begins at the solution for the widths before.
        solution = _newton(z, present, design, np.append(0.0, widths**-2.0), solution)
        solutions.append(solution)
    evidence = np.array([one.evidence for one in solutions])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    shared = np.einsum("g,gp->p", weights, np.stack([one.shared for one in solutions]))
    own = np.einsum("g,gcr->cr", weights, np.stack([one.own for one in solutions]))
    lines = _lines(design, shared, own)
    return float(shared[1]), lines[:, 0].copy(), lines[:, 1].copy()


class _Solution(NamedTuple):
    """Shared coefficients, labels' own ones of shape (n_labels, 2), and the log marginal likelihood."""

    shared: Numbers
    own: Numbers
    evidence: float


def _lines(design: Numbers, shared: Numbers, own: Numbers) -> Numbers:
    """Return offset and slope of every label, shape (n_labels, 2)."""
    return np.asarray(design[:, :, :_N_SHARED] @ shared + np.einsum("cxr,cr->cx", design[:, :, _N_SHARED:], own))


def _newton(z: Numbers, present: NDArray[np.bool_], design: Numbers, precision: Numbers, start: _Solution) -> _Solution:
    """Minimise the penalised log-loss by Newton's method; labels meet only in the shared coefficients."""
    shared_precision, own_precision = precision[:_N_SHARED], precision[_N_SHARED:]
    sign = np.where(present, 1.0, -1.0)
    shared, own = start.shared, start.own

    def value(shared: Numbers, own: Numbers) -> float:
        lines = _lines(design, shared, own)
        loss = -log_expit(sign * (lines[:, 0] + lines[:, 1] * z)).sum()
        return float(loss + 0.5 * (shared_precision @ shared**2 + (own_precision * own**2).sum()))

    current = value(shared, own)
    for _ in range(_MOST_STEPS):
        lines = _lines(design, shared, own)
        p = expit(lines[:, 0] + lines[:, 1] * z)
        residual, weight = p - present, p * (1.0 - p)
        weighted = weight * z
        # Per label: gradient and Hessian by its offset and slope, then by all coefficients.
        by_line = np.stack([residual.sum(axis=0), (residual * z).sum(axis=0)], axis=1)
        corner = weighted.sum(axis=0)
        curvature = np.stack([weight.sum(axis=0), corner, corner, (weighted * z).sum(axis=0)], axis=1)
        by_all = np.einsum("cxp,cx->cp", design, by_line)
        hessian = design.transpose(0, 2, 1) @ curvature.reshape(-1, 2, 2) @ design
        gradient = by_all[:, :_N_SHARED].sum(axis=0) + shared_precision * shared
        gradient_own = by_all[:, _N_SHARED:] + own_precision * own
        # The labels' own coefficients are eliminated; what remains is one small system.
        block = hessian[:, _N_SHARED:, _N_SHARED:] + np.diag(own_precision)
        joint = hessian[:, :_N_SHARED, _N_SHARED:]
        solved = np.linalg.solve(block, np.concatenate([joint.transpose(0, 2, 1), gradient_own[:, :, None]], axis=2))
        reduced = hessian[:, :_N_SHARED, :_N_SHARED].sum(axis=0) + np.diag(shared_precision)
        reduced = reduced - np.einsum("cpr,crq->pq", joint, solved[:, :, :-1])
        step = np.linalg.solve(reduced, gradient - np.einsum("cpr,cr->p", joint, solved[:, :, -1]))
        step_own = solved[:, :, -1] - solved[:, :, :-1] @ step
        decrement = float(gradient @ step + (gradient_own * step_own).sum())
        if decrement < _TOLERANCE:
            break
        for length in 0.5 ** np.arange(_MOST_HALVINGS):
            loss = value(shared - length * step, own - length * step_own)
            if not loss > current - 1e-4 * length * decrement:
                break
        else:  # no better within rounding
            break
        shared, own, current = shared - length * step, own - length * step_own, loss
    # Laplace's approximation: all coefficients are integrated out around their mode.
    evidence = -current - 0.5 * (np.linalg.slogdet(block)[1].sum() + np.linalg.slogdet(reduced)[1])
    evidence += 0.5 * (len(block) * np.log(own_precision).sum() + np.log(shared_precision[1:]).sum())
    return _Solution(shared, own, float(evidence))


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

"""Correction of tags that people chose, learnt from a sample with complete labels.

Tags tell which label of a row was written down, P(observed = j | x) ∝ e_j·p_j(x): people name what is striking, what
they know, what the form lists first. From tags alone, how readily a label is named, e_j, cannot be told from how
often it is true. A few complete rows tell. With z_j the score of label j, the model's log-share or logit, the corrected
logit of label j is

    a·z_j + c + d·ℓ_j + b_j + Σ_k w_jk·s_k

with ℓ_j the log of the label's mean probability in the sample. It is linear in the scores of a row.

- All labels share slope a, intercept c, and d, by which the label's level ℓ_j counts more or less than what a row adds.
- Offset b_j is the label's own: it corrects e_j.
- s_1, s_2, … are the principal components of a row's scores in the sample. With them label j learns from the scores of
  all labels: a row that looks like one label may have another that nobody tags.
- b and w are 0 unless the sample says otherwise: they are drawn from normal distributions around 0. With b = w = d = 0
  the ranking stays what it was.
- How wide these distributions are is not chosen: the maps are averaged over a grid of widths, each weighted by its
  marginal likelihood. A single choice would now and then be a bad one.

Rows without any label say how many labels rows have, but not which label of a row is named. If there are enough other
rows, and these have several labels, they count in the intercept only.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from onepos._utils import storage

Numbers = NDArray[np.float64]

#: Smallest sample: rows, and entries that are present and absent.
ENOUGH_ROWS, ENOUGH_ENTRIES = 10, 10
#: Fewest labels in the mean of rows that have one, for rows without a label to be left aside.
SEVERAL = 2
#: Standard deviations to average over, for scores of standard deviation 1: of labels' offsets, and of the share of the
#: components, whose sum has variance 1, in a label's logit. The smallest ones leave the ranking as it was.
OFFSET_WIDTHS, COMPONENT_WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0), (0.03, 0.3, 1.0, 2.0)
#: Standard deviations of the shared slope and of d. That of the slope matters if the sample is separated perfectly.
SLOPE_WIDTH, LEVEL_WIDTH = 3.0, 0.5
#: Most principal components.
MOST_COMPONENTS = 20
N_FOLDS = 10

_MOST_STEPS, _MOST_HALVINGS = 100, 34
_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Calibration:
    """The map from a model's scores to calibrated logits, linear in the scores of a row."""

    _stored: ClassVar[storage.Rules] = {
        "slope": storage.FINITE,
        "offsets": storage.Array("labels", "f8"),
        "components": storage.Array("labels components", "f8"),
        "weights": storage.Array("components labels", "f8"),
        "n_rows": storage.COUNT,
    }

    slope: float  #: of all labels
    offsets: Numbers  #: shape (n_labels,)
    components: Numbers  #: shape (n_labels, n_components)
    weights: Numbers  #: of the components, shape (n_components, n_labels)
    n_rows: int  #: of the sample

    def apply(self, scores: Numbers) -> Numbers:
        """Return calibrated logits, shape (n_samples, n_labels)."""
        result: Numbers = self.slope * scores + scores @ self.components @ self.weights + self.offsets
        return result


def fit_calibration(scores: ArrayLike, Y: Any) -> Calibration:
    """Learn the correction from a sample with complete labels.

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
    >>> logits = fit_calibration(scores, Y).apply(np.eye(3))
    >>> logits.diagonal().round().tolist()
    [3.0, 1.0, 2.0]
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
    labelled = np.asarray(present.any(axis=1))
    enough = labelled.sum() >= ENOUGH_ROWS and (~present[labelled]).sum() >= ENOUGH_ENTRIES
    if not enough or n_present < SEVERAL * labelled.sum():
        labelled[:] = True
    z, Y_labelled = values[labelled], present[labelled]
    centre, spread = float(z.mean()), float(z.std())
    if not spread > 0:
        raise ValueError("all scores of the sample are equal: they cannot be calibrated. Train another model.")
    middle = z.mean(axis=0)
    levels = np.log(expit(z).mean(axis=0))
    levels = (levels - levels.mean()) / spread
    rotation = _components(z - middle, spread)
    basis = np.column_stack([np.ones(len(z)), (z - middle) @ rotation])
    (intercept, slope, level), own = _average((z - centre) / spread, levels, basis, Y_labelled)
    # Below 0 the slope may only say that labels tagged often are true rarely. Rows of one label tell more.
    if not slope > 0 and ((z - middle) * Y_labelled).sum() < -1e-9:
        raise ValueError(
            "the model ranks the labels of this sample no better than chance, so calibrating would reverse its ranking."
            " Check that the sample's rows and columns are in the order of the model's."
        )
    offsets = intercept + level * levels + own[0] - slope * centre / spread - middle @ rotation @ own[1:]
    made = Calibration(float(slope / spread), offsets, rotation, own[1:], len(values))
    if labelled.all():
        return made
    logits = made.apply(values)
    shift = brentq(lambda more: expit(logits + more).sum() - n_present, -100.0, 100.0)
    return replace(made, offsets=offsets + shift)


def calibration_by_rates(scores: Numbers, rates: Numbers) -> Calibration:
    """Return the correction that has an offset per label only, so that the mean probability of each label is known.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        The model's log P(observed = j | x), or its logits, for rows like those to be predicted; no labels are needed.
    rates : array of shape (n_labels,)
        Share of rows that have each label, above 0 and below 1.

    Examples
    --------
    >>> found = calibration_by_rates(np.log([[0.7, 0.3], [0.5, 0.5]]), np.array([0.6, 0.6]))
    >>> expit(found.apply(np.log([[0.7, 0.3], [0.5, 0.5]]))).mean(axis=0).round(3).tolist()
    [0.6, 0.6]
    """
    if rates.shape != (scores.shape[1],) or not ((rates > 0) & (rates < 1)).all():
        raise ValueError(
            f"rates must be {scores.shape[1]} shares of rows above 0 and below 1, one per label; got shape "
            f"{rates.shape} with values from {rates.min():g} to {rates.max():g}."
        )
    offsets = [
        brentq(lambda shift, z=z, rate=rate: expit(z + shift).mean() - rate, -1e4, 1e4)
        for z, rate in zip(scores.T, rates, strict=True)
    ]
    nothing = np.zeros((len(rates), 1))
    return Calibration(1.0, np.array(offsets), nothing, nothing.T, 0)


def out_of_fold(scores: Numbers, Y: Any) -> Numbers:
    """Return calibrated logits of each row of a sample by a correction that was learnt from the other rows."""
    present = np.asarray(Y) > 0
    fold = np.random.default_rng(0).permutation(len(scores)) % N_FOLDS
    logits = np.empty(present.shape)
    for number in np.unique(fold):
        held = fold == number
        logits[held] = fit_calibration(scores[~held], present[~held]).apply(scores[held])
    return logits


def _components(centred: Numbers, spread: float) -> Numbers:
    """Return principal components as columns, scaled so that the variances of all add up to 1."""
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    kept = sizes[:MOST_COMPONENTS] >= 1e-3 * sizes[0]
    whole = np.sqrt((sizes**2).sum() / len(centred))
    scale = 1.0 / whole if whole > 1e-6 * spread else 0.0  # all rows have the same scores
    return np.asarray(directions[: len(kept)][kept].T * scale)


def _average(z: Numbers, levels: Numbers, basis: Numbers, present: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Return c, a, d, and the labels' own coefficients of ``basis``, averaged over the grid of widths."""
    rate = present.mean()
    start = np.array([np.log(rate / (1.0 - rate)), 1.0, 0.0])
    solution = _Solution(start, np.zeros((basis.shape[1], z.shape[1])), 0.0)
    shared_precision = np.array([0.0, SLOPE_WIDTH**-2.0, LEVEL_WIDTH**-2.0])  # the intercept is free
    solutions = []
    for component_width, offset_width in product(COMPONENT_WIDTHS, OFFSET_WIDTHS):
        precision = np.full(basis.shape[1], component_width**-2.0)
        precision[0] = offset_width**-2.0
        # The search begins at the solution for the widths before.
        solution = _newton(z, levels, basis, present, shared_precision, precision, solution)
        solutions.append(solution)
    evidence = np.array([one.evidence for one in solutions])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    shared = np.einsum("g,gs->s", weights, np.stack([one.shared for one in solutions]))
    return shared, np.einsum("g,grc->rc", weights, np.stack([one.own for one in solutions]))


class _Solution(NamedTuple):
    """Shared coefficients, labels' own ones of shape (n_basis, n_labels), and the log marginal likelihood."""

    shared: Numbers
    own: Numbers
    evidence: float


def _newton(
    z: Numbers,
    levels: Numbers,
    basis: Numbers,
    present: NDArray[np.bool_],
    shared_precision: Numbers,
    own_precision: Numbers,
    start: _Solution,
) -> _Solution:
    """Minimise the penalised log-loss by Newton's method; labels meet only in the shared coefficients."""
    design = np.stack([np.ones_like(z), z, np.broadcast_to(levels, z.shape)])
    n_own, n_labels = basis.shape[1], z.shape[1]
    squares = (basis[:, :, None] * basis[:, None, :]).reshape(len(z), -1)
    sign = np.where(present, 1.0, -1.0)
    shared, own = start.shared, start.own

    def logits(shared: Numbers, own: Numbers) -> Numbers:
        return np.asarray(np.tensordot(shared, design, 1) + basis @ own)

    def value(shared: Numbers, own: Numbers) -> float:
        loss = -log_expit(sign * logits(shared, own)).sum()
        return float(loss + 0.5 * (shared_precision @ shared**2 + (own_precision @ own**2).sum()))

    current = value(shared, own)
    for _ in range(_MOST_STEPS):
        p = expit(logits(shared, own))
        residual, weight = p - present, p * (1.0 - p)
        gradient = np.tensordot(design, residual, 2) + shared_precision * shared
        gradient_own = (basis.T @ residual).T + own_precision * own.T
        # The labels' own coefficients are eliminated; what remains is one small system.
        block = (squares.T @ weight).T.reshape(n_labels, n_own, n_own) + np.diag(own_precision)
        joint = np.stack([basis.T @ (weight * column) for column in design], axis=2).transpose(1, 0, 2)
        solved = np.linalg.solve(block, np.concatenate([joint, gradient_own[:, :, None]], axis=2))
        reduced = np.einsum("pnc,nc,qnc->pq", design, weight, design, optimize=True) + np.diag(shared_precision)
        reduced = reduced - np.einsum("crp,crq->pq", joint, solved[:, :, :-1])
        step = np.linalg.solve(reduced, gradient - np.einsum("crp,cr->p", joint, solved[:, :, -1]))
        step_own = (solved[:, :, -1] - solved[:, :, :-1] @ step).T
        decrement = float(gradient @ step + (gradient_own.T * step_own).sum())
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
    evidence += 0.5 * (n_labels * np.log(own_precision).sum() + np.log(shared_precision[1:]).sum())
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

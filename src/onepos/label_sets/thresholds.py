"""From probabilities to label sets when only one positive of each row was ever seen.

Single positives fix how labels rank, not how many are positive: p and p/2 explain the same tags if twice as many labels
are true. A threshold needs one more fact: the mean number of positives m (``cardinality_threshold``), the share of rows
that have each label (``rate_thresholds``), or a small sample with complete labels (``sample_thresholds``).
"""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from onepos._utils.parameters import Number
from onepos._utils.validation import expected, has_label
from onepos.graph.neighbors import nearest_neighbors

Scores: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Literal["f1", "hamming"]

#: So many positives and as many negatives of a label in a sample count as much as the threshold of all labels.
SHRINKAGE = 5


def cardinality_threshold(probabilities: ArrayLike, n_positives: float, *, at_least_one: bool = False) -> float:
    """Return the one threshold at which rows have ``n_positives`` labels on average.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_labels)
        Of rows that need no labels, such as those to be predicted. Rows the model was trained on are too confident.
    n_positives : float
        Mean number of positive labels per row, m.
    at_least_one : bool
        Whether each row has its most likely label in any case, as in ``label_sets``. These labels count, and the
        threshold is for the others. A mean below 1 is then taken as 1.

    Examples
    --------
    >>> cardinality_threshold([[0.9, 0.4], [0.8, 0.1]], 1.5)
    0.25
    >>> cardinality_threshold([[0.9, 0.4], [0.2, 0.1]], 1.0, at_least_one=True)
    0.7
    """
    scores = _scores(probabilities)
    _check_n_positives(n_positives, scores.shape[1])
    wanted = n_positives * len(scores)
    if at_least_one:
        scores = scores.copy()
        np.put_along_axis(scores, scores.argmax(axis=1)[:, None], max(1.0, float(scores.max())), axis=1)
        wanted = max(wanted, len(scores))
    return float(_kth_gap(scores.reshape(-1, 1), np.array([float(wanted)]))[0])


def _check_n_positives(given: Any, n_labels: int) -> None:
    if not Number(0, n_labels, open_low=True).holds(given):
        what = f"n_positives, the mean number per row, must be a number above 0 and up to {n_labels}"
        raise ValueError(expected(f"{what}, the number of labels", given))


def rate_thresholds(probabilities: ArrayLike, rates: ArrayLike) -> Scores:
    """Return a threshold for each label at which the share ``rates[j]`` of rows have label j.

    Examples
    --------
    >>> rate_thresholds([[0.9, 0.4], [0.8, 0.1]], [0.5, 1.0]).round(2).tolist()
    [0.85, 0.05]
    """
    scores, shares = _scores(probabilities), np.asarray(rates, dtype=np.float64)
    if shares.shape != (scores.shape[1],) or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(
            f"rates must be {scores.shape[1]} shares of rows between 0 and 1, one per label; got shape {shares.shape} "
            f"with values from {shares.min() if shares.size else '?'} to {shares.max() if shares.size else '?'}."
        )
    return _kth_gap(scores, shares * len(scores))


def label_rates(observed: ArrayLike, n_positives: float) -> Scores:
    """Estimate the share of rows with each label from how often it was the observed one.

    If each positive of a row is the observed one with equal chance, label j is observed in the share E[1(j ∈ Y)/|Y|]
    of rows, about its rate over m. So rate = m · share. No rate exceeds 1. The excess goes to the other labels, so that
    rates still sum to m.

    Examples
    --------
    >>> label_rates([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], 2).tolist()
    [1.0, 0.5, 0.5]
    """
    counts = (np.asarray(observed) > 0).sum(axis=0).astype(np.float64)
    n_labels = len(counts)
    _check_n_positives(n_positives, n_labels)
    if not counts.any():
        raise ValueError("no label was observed in any row; rates cannot be estimated.")
    rates: Scores = n_positives * counts / counts.sum()
    for _ in range(len(counts)):  # each round fills at least one label up
        over = rates > 1.0
        rest = (rates < 1.0) & (counts > 0)
        if not over.any() or not rest.any():
            break
        rates[rest] += rates[rest] * ((rates[over] - 1.0).sum() / rates[rest].sum())
        rates[over] = 1.0
    return rates.clip(max=1.0)


def sample_thresholds(probabilities: ArrayLike, Y: Any, *, measure: Measure = "f1") -> Scores:
    """Return for each label the threshold that is best on a sample with complete labels.

    ``probabilities`` and complete labels ``Y`` have shape (n_samples, n_labels). Best is the F1 of a label, or the
    number of wrong entries ("hamming"). The best threshold of a label that is rare in the sample is luck. So the
    log-odds of a label's threshold are moved towards those of the one that is best for all labels together. With n
    positives or negatives in the sample, whichever are fewer, its own count n/(n + 5).

    Examples
    --------
    >>> sample_thresholds([[0.3], [0.2], [0.1], [0.05]], [[1], [1], [0], [0]]).round(2).tolist()
    [0.15]
    """
    scores, positive = _scores(probabilities), np.asarray(Y) > 0
    if positive.shape != scores.shape:
        raise ValueError(f"probabilities and Y must have the same shape; got {scores.shape} and {positive.shape}.")
    if measure not in ("f1", "hamming"):
        raise ValueError(f'measure must be "f1" or "hamming"; got {measure!r}.')
    common = _best(scores.reshape(-1), positive.reshape(-1), measure)
    counts = positive.sum(axis=0)
    fewer = np.minimum(counts, len(scores) - counts)
    own = np.full(scores.shape[1], common)
    for j in np.flatnonzero(fewer):
        own[j] = _best(scores[:, j], positive[:, j], measure)
    weight = fewer / (fewer + SHRINKAGE)
    moved = expit(weight * _log_odds(own) + (1.0 - weight) * _log_odds(np.array(common)))
    return np.where(own == common, common, moved)


def promised_threshold(
    probabilities: ArrayLike, Y: Any, *, precision: float | None = None, recall: float | None = None
) -> float:
    """Return the threshold that keeps a promise on rows like those of a sample with complete labels.

    With ``precision`` that share of the suggested tags is right, and with ``recall`` that share of the true tags is
    suggested, in the mean over samples and rows (conformal risk control, Angelopoulos et al. 2022). As a correction for
    the finite sample, one more row counts for which everything is wrong. Sets are as large, or as small, as the promise
    allows.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_labels)
        By a model that has not seen these rows.
    Y : array of shape (n_samples, n_labels)
        Complete labels: above 0 present, otherwise absent.

    Raises
    ------
    ValueError
        If there are too few rows, or the model is not good enough.

    Examples
    --------
    >>> scores, Y = np.tile([0.9, 0.1], (20, 1)), np.tile([1, 0], (20, 1))
    >>> promised_threshold(scores, Y, precision=0.8), promised_threshold(scores, Y, recall=0.8)
    (0.5, 0.5)
    """
    scores, positive = _scores(probabilities), np.asarray(Y) > 0
    if (precision is None) == (recall is None):
        raise ValueError("promise either a precision or a recall: one threshold cannot keep both.")
    goal, name = (precision, "precision") if recall is None else (recall, "recall")
    if goal is None or not 0 < goal < 1:
        raise ValueError(f"a promised {name} must lie between 0 and 1; got {goal}.")
    order = np.argsort(-scores, axis=None, kind="stable")
    ordered, hits = scores.ravel()[order], np.cumsum(positive.ravel()[order])
    taken = np.arange(1, len(order) + 1)
    if recall is None:
        places = np.empty_like(order)
        places[np.argsort(-scores, axis=1, kind="stable") + np.arange(len(scores))[:, None] * scores.shape[1]] = (
            np.arange(1, scores.shape[1] + 1)
        )
        wrong, total, largest = taken - hits, taken, np.maximum.accumulate(places[order])
    else:
        wrong, total, largest = positive.sum() - hits, positive.sum(), positive.sum(axis=1).max()
    kept = wrong + goal * largest <= (1.0 - goal) * total + 1e-9
    kept &= np.append(ordered[:-1] > ordered[1:], True)  # a cut between equal scores cannot be made
    cuts = np.flatnonzero(kept)
    if not len(cuts):
        raise ValueError(
            f"{len(scores)} rows with complete labels are too few to promise a {name} of {goal:g} for this model. "
            "Label more rows completely, or promise less."
        )
    k = taken[cuts[-1] if recall is None else cuts[0]]
    return float(_kth_gap(scores.reshape(-1, 1), np.array([float(k)]))[0])


def label_sets(probabilities: ArrayLike, thresholds: ArrayLike, *, at_least_one: bool = False) -> NDArray[np.int64]:
    """Return the 0/1 indicator of labels whose probability reaches their threshold.

    ``at_least_one`` adds the label nearest to its threshold where none reaches it.

    Examples
    --------
    >>> label_sets([[0.6, 0.4], [0.2, 0.1]], 0.5, at_least_one=True).tolist()
    [[1, 0], [1, 0]]
    """
    scores = _scores(probabilities)
    limits = np.broadcast_to(np.asarray(thresholds, dtype=np.float64), (scores.shape[1],))
    sets = (scores >= limits).astype(np.int64)
    if at_least_one:
        empty = np.flatnonzero(sets.sum(axis=1) == 0)
        # Rare and common labels compare on the scale of logits.
        sets[empty, (_log_odds(scores[empty]) - _log_odds(limits)).argmax(axis=1)] = 1
    return sets


def _log_odds(p: Scores) -> Scores:
    tiny = np.finfo(np.float64).tiny
    return np.asarray(np.log(np.maximum(p, tiny)) - np.log(np.maximum(1.0 - p, tiny)))


def _scores(probabilities: ArrayLike) -> Scores:
    scores = np.asarray(probabilities, dtype=np.float64)
    if scores.ndim != 2 or 0 in scores.shape:
        raise ValueError(f"probabilities must have the shape (n_samples, n_labels), neither 0; got {scores.shape}.")
    if not np.isfinite(scores).all():
        raise ValueError("probabilities must be finite; got NaN or infinity.")
    return scores


def _kth_gap(scores: Scores, wanted: Scores) -> Scores:
    """Return for each column the middle of a gap that as near as possible to ``wanted`` entries are above."""
    ordered = -np.sort(-scores, axis=0)
    # One more entry at either end, where the middle would not exist.
    top = np.maximum(np.nextafter(ordered[:1], np.inf), 1.0)
    bounded = np.vstack([top, ordered, np.minimum(ordered[-1:], 0.0)])
    columns = np.arange(scores.shape[1])
    kth = bounded[np.clip(np.rint(wanted), 0, len(scores)).astype(np.intp), columns]
    # A cut between equal scores cannot be made: all of them are above, or none.
    with_ties, without = (scores >= kth).sum(axis=0), (scores > kth).sum(axis=0)
    k = np.where(with_ties - wanted <= wanted - without, with_ties, without)
    upper, lower = bounded[k, columns], bounded[k + 1, columns]
    # Below the k-th and above the next one; where no number lies between them, the k-th itself.
    middle = 0.5 * (upper + lower)
    return np.asarray(np.where(middle > lower, middle, upper))


def _best(scores: Scores, positive: NDArray[np.bool_], measure: Measure) -> float:
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    hits = np.concatenate([[0], np.cumsum(positive[order])])
    taken = np.arange(len(scores) + 1)
    # A cut between equal scores cannot be made.
    possible = np.concatenate([[True], ordered[:-1] > ordered[1:], [True]])
    value = 2.0 * hits / np.maximum(taken + hits[-1], 1) if measure == "f1" else 2.0 * hits - taken
    k = np.where(possible, value, -np.inf).argmax()
    return float(_kth_gap(scores.reshape(-1, 1), np.array([float(k)]))[0])


def resolve_n_positives(
    given: float | None, n_labels: int, full_validation: NDArray[np.int8] | None = None, *, one_class: bool = False
) -> tuple[float, str]:
    """Return m and where it came from.

    That is "given", "one class" (a 1-D y), "validation" (mean number of labels of fully labelled validation rows) or
    "default": 2, or (c + 1) / 2, the middle of 1 … c, if that is less.
    """
    if given is not None:
        if not 1 <= given <= n_labels:
            raise ValueError(
                f"n_positives is the mean number of positive labels per example: between 1 and {n_labels} "
                f"(the number of labels); got {given}."
            )
        return float(given), "given"
    if one_class:
        return 1.0, "one class"
    if full_validation is not None:
        counts = (full_validation > 0).sum(axis=1)
        counts = counts[counts > 0]
        if counts.size:
            return float(counts.mean()), "validation"
    return min(2.0, (n_labels + 1) / 2), "default"


def balanced_weight(n_positives: float) -> float:
    """Weight w* = 1/(2m − 1) of unobserved entries, with which a label of p = ½ gets d = ½.

    Under uniform selection (p/m)·(−log d) + w·(1 − p/m)·(−log(1 − d)) is least at d = (p/m) / (p/m + w(1 − p/m)).
    """
    return 1.0 / (2.0 * n_positives - 1.0)


def estimate_n_positives(X: Any, observed: NDArray[np.int8]) -> float:
    """Estimate the mean number of positives per row between its two bounds: 1 and the inverse agreement.

    Two rows with label sets S and S' show the same label with probability |S ∩ S'| / (|S||S'|) ≤ 1/|S|, if it is drawn
    uniformly. So the harmonic mean of |S| lies between 1 and 1/A, A the rate of agreement of nearest neighbours or of
    random pairs, whichever is larger. Between these bounds the geometric mean √(1/A) has the smallest worst-case ratio.

    X are scaled features; each row of ``observed`` has a positive.

    Examples
    --------
    >>> X = np.repeat([[0.0], [9.0]], 2, axis=0)
    >>> estimate_n_positives(X, np.eye(2, dtype=np.int8)[[0, 0, 1, 1]])
    1.0
    """
    n_samples, n_labels = observed.shape
    if n_samples < 2:
        return 1.0
    positives = (observed > 0).astype(np.float64)
    share = positives / positives.sum(axis=1, keepdims=True)  # a label drawn from those observed in the row
    nearest, _ = nearest_neighbors(X, 1)
    near = float(np.einsum("ij,ij->i", share, share[nearest[:, 0]]).mean())
    # Random pairs of different rows, without forming them: (‖Σ_i s_i‖² − Σ_i ‖s_i‖²) / (n (n − 1)).
    chance = float((np.square(share.sum(axis=0)).sum() - np.square(share).sum()) / (n_samples * (n_samples - 1)))
    return float(np.clip(1.0 / max(near, chance, 1.0 / n_labels), 1.0, n_labels) ** 0.5)


def observed_frequency(observed: Any) -> NDArray[np.float64]:
    """Share of the labelled rows in which each label was observed, smoothed, with ties broken by column order."""
    counts = np.asarray((observed > 0).sum(axis=0))
    order = np.arange(len(counts)) / len(counts)
    return np.asarray((counts + 0.5 - 1e-3 * order) / (has_label(observed).sum() + 1.0))

"""How good a ranking is, row by row, so that means come with bootstrap intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.label_sets.thresholds import label_sets
from onepos.metrics import METRICS, row_values

#: k of recall at k.
RECALL_AT = (1, 3, 5)
_OF_SETS = ("precision", "recall", "f1")
#: Titles of the measures for one known tag per row.
SINGLE_POSITIVE_TITLES = {
    "reciprocal_rank": "Mean reciprocal rank",
    "recall_at_1": "Tag is the first",
    "recall_at_3": "Tag is among the first 3",
    "recall_at_5": "Tag is among the first 5",
}


def single_positive_values(observed: NDArray[Any], scores: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return what one known tag per row tells: its reciprocal rank, and whether it is among the first k.

    A row's other tags are unknown, so a high-ranked label may well be right: these numbers compare models, they do not
    say how good one is. Ties count against the tag. Of several known tags the best ranked counts.

    Parameters
    ----------
    observed : array of shape (n_samples, n_labels)
        1 where a tag is known; rows without one give NaN.
    scores : array of shape (n_samples, n_labels)

    Examples
    --------
    >>> values = single_positive_values(np.array([[0, 1, 0]]), np.array([[0.9, 0.5, 0.1]]))
    >>> float(values["reciprocal_rank"][0])
    0.5
    """
    known = np.asarray(observed) > 0
    best = np.where(known, scores, -np.inf).max(axis=1)
    ranks = np.where(known.any(axis=1), (np.asarray(scores) >= best[:, None]).sum(axis=1), np.nan).astype(np.float64)
    values = {"reciprocal_rank": 1.0 / ranks}
    for k in RECALL_AT:
        values[f"recall_at_{k}"] = np.where(np.isnan(ranks), np.nan, ranks <= k).astype(np.float64)
    return values


def complete_values(
    truth: NDArray[Any],
    scores: NDArray[Any],
    threshold: float | Sequence[float] = 0.5,
    *,
    at_least_one: bool = False,
) -> dict[str, NDArray[np.float64]]:
    """Return the five measures of ``onepos.metrics`` for every row; NaN where a row does not count.

    Their means over rows are those of ``onepos.metrics.evaluate``. With ``at_least_one`` Hamming loss looks at sets
    that have the best label where they would be empty.

    Examples
    --------
    >>> complete_values(np.array([[1, 0, 1]]), np.array([[0.9, 0.5, 0.1]]))["average_precision"].round(3).tolist()
    [0.833]
    """
    positive, scores = np.asarray(truth) > 0, np.asarray(scores, dtype=np.float64)
    values = row_values(positive, scores, METRICS[:-1])
    values["hamming_loss"] = (label_sets(scores, threshold, at_least_one=at_least_one) != positive).mean(axis=1)
    return values


def set_scores(sets: NDArray[Any], truth: NDArray[Any] | None) -> dict[str, float]:
    """Return the mean size of label sets and, with complete labels, precision, recall and F1.

    Micro: over all entries. Macro: the mean over labels that are true in some row, or in some set.

    Examples
    --------
    >>> found = set_scores(np.array([[1, 1, 0]]), np.array([[1, 0, 0]]))
    >>> found["micro_precision"], found["micro_recall"], found["macro_f1"], found["mean_size"], found["true_mean_size"]
    (0.5, 1.0, 0.5, 2.0, 1.0)
    """
    from sklearn.metrics import precision_recall_fscore_support

    found = {"mean_size": float((sets > 0).sum(axis=1).mean())}
    if truth is None:
        return found
    positive = np.asarray(truth) > 0
    used = positive.any(axis=0) | (np.asarray(sets) > 0).any(axis=0)
    found["true_mean_size"] = float(positive.sum(axis=1).mean())
    for average in ("micro", "macro"):
        scores = precision_recall_fscore_support(
            positive[:, used], sets[:, used] > 0, average=average, zero_division=0.0
        )
        found |= dict(zip((f"{average}_{name}" for name in _OF_SETS), map(float, scores[:3]), strict=True))
    return found


def bootstrap_intervals(
    values: dict[str, NDArray[np.float64]], *, n_resamples: int = 1000, random_state: int = 0
) -> dict[str, dict[str, float]]:
    """Return mean and 95 % percentile interval of each measure, from resampled rows.

    The same rows are drawn for every measure. A row that is NaN does not count in that measure.

    Examples
    --------
    >>> bootstrap_intervals({"x": np.array([1.0, 1.0, np.nan])})
    {'x': {'mean': 1.0, 'low': 1.0, 'high': 1.0}}
    """
    table = np.column_stack(list(values.values()))
    counted = ~np.isnan(table)
    filled = np.where(counted, table, 0.0)
    generator = np.random.default_rng(random_state)
    means = np.empty((n_resamples, table.shape[1]))
    for k in range(n_resamples):
        weight = np.bincount(generator.integers(0, len(table), len(table)), minlength=len(table)).astype(np.float64)
        with np.errstate(invalid="ignore"):  # a resample may lack every row that counts in a measure
            means[k] = (weight @ filled) / (weight @ counted)
    result = {}
    for j, name in enumerate(values):
        drawn = means[:, j][~np.isnan(means[:, j])]
        if not drawn.size:
            result[name] = {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
            continue
        low, high = np.percentile(drawn, (2.5, 97.5))
        result[name] = {"mean": float(table[counted[:, j], j].mean()), "low": float(low), "high": float(high)}
    return result

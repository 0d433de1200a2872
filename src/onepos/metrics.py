"""The paper's five example-based measures of a multi-label ranking, and two of the ranking of rows by each label.

Write s_ij for the score of label j in row i, P_i for the row's positive labels, N_i for its negative ones, c for the
number of labels, and for a positive label j

    g_ij = |{ l in N_i : s_il >= s_ij }|      the negatives scored at least as high.

**Ties are broken pessimistically**: among labels of one score the negatives come first, then the positives. Each
ranking measure is therefore the worst value of all orders of the tied labels. The order of columns does not matter.

**Rows**: the four ranking measures leave out rows without a positive; ranking loss also leaves out rows without a
negative. If no row is left, they raise ``ValueError``. Hamming loss uses every row.

**Against scikit-learn** (a positive and a negative in every row):

- ``ranking_loss`` equals ``label_ranking_loss``, with and without ties. Both count a tie as wrong.
- ``coverage`` equals ``(coverage_error - 1) / c``, with and without ties. Both take the worst rank.
- ``average_precision`` equals ``label_ranking_average_precision_score`` unless positives are tied with each other below
  some negative. Two positives tied at ranks 2 and 3 behind a negative count (1/2 + 2/3)/2 here and (2/3 + 2/3)/2 there,
  where all tied positives get the last one's precision.
- scikit-learn has no one-error. It scores a row without a positive as 1 (average precision) or 0 (ranking loss,
  coverage error), and a row without a negative as ranking loss 0; here such rows are left out.

**Over labels**: ``macro_average_precision`` (mAP, the usual measure for pictures) and ``macro_auc`` rank the rows by
each label and take the mean of scikit-learn's measure over the labels that have a positive row and a negative one. They
tell how well one finds the rows that lack a tag.

``Y_true`` may be an array, a DataFrame or sparse, with 1 or True for positive and 0, False or -1 for negative;
``scores`` may be an array or a DataFrame. Rows are matched by position. Rows are read in portions, so memory beyond the
arrays stays at tens of megabytes, and float32 scores are never copied to float64.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.validation import IntArray, MatrixLike

__all__ = ["LABEL_METRICS", "METRICS", "METRIC_TITLES", "average_precision", "coverage", "evaluate", "hamming_loss"]
__all__ += ["higher_is_better", "macro_auc", "macro_average_precision", "one_error", "ranking_loss", "row_values"]
__all__ += ["single_positive_values"]

#: Titles of the measures by name.
METRIC_TITLES: Mapping[str, str] = {
    "average_precision": "Average precision",
    "one_error": "One-error",
    "ranking_loss": "Ranking loss",
    "coverage": "Coverage",
    "hamming_loss": "Hamming loss",
    "macro_average_precision": "Mean average precision of labels (mAP)",
    "macro_auc": "Mean AUC of labels",
}

#: Names of the five measures of rows, in the order in which :func:`evaluate` gives them.
METRICS: tuple[str, ...] = tuple(METRIC_TITLES)[:5]
#: Names of the two measures over labels, which follow them.
LABEL_METRICS: tuple[str, ...] = tuple(METRIC_TITLES)[5:]


def average_precision(Y_true: MatrixLike, scores: MatrixLike) -> float:
    """Mean over rows of the mean precision at the positives' ranks (higher is better).

    1/n Σ_i 1/|P_i| Σ_k k / (k + g_i(k)), where g_i(k) belongs to the row's k-th best positive: k of the k + g_i(k)
    labels down to it are positive.

    Parameters
    ----------
    Y_true : array, DataFrame or sparse of shape (n_samples, n_labels)
        The truth: 1 positive; 0 or -1 negative.
    scores : array or DataFrame of shape (n_samples, n_labels)
        Finite scores; higher means more likely positive.

    Returns
    -------
    float
        In (0, 1]. See the module's text for ties, rows left out, and scikit-learn.

    Examples
    --------
    >>> average_precision([[1, 0, 1]], [[0.9, 0.5, 0.1]])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    return _means(Y_true, scores, ("average_precision",))["average_precision"]


def one_error(Y_true: MatrixLike, scores: MatrixLike) -> float:
    """Fraction of rows whose top-ranked label is not positive (lower is better).

    1/n Σ_i [ max_{l in N_i} s_il >= max_{j in P_i} s_ij ]; a negative tied for the top is an error.

    Parameters and ties as in :func:`average_precision`; a row with positives only has no error.

    Examples
    --------
    >>> one_error([[1, 0], [1, 0]], [[0.9, 0.1], [0.5, 0.5]])
    0.5
    """
    return _means(Y_true, scores, ("one_error",))["one_error"]


def ranking_loss(Y_true: MatrixLike, scores: MatrixLike) -> float:
    """Fraction of (positive, negative) pairs in the wrong order, averaged over rows (lower is better).

    1/n Σ_i 1/(|P_i| |N_i|) Σ_{j in P_i} g_ij; a tied pair is wrong.

    Parameters and ties as in :func:`average_precision`; rows without a negative are left out as well.

    Examples
    --------
    >>> ranking_loss([[1, 0, 1]], [[0.9, 0.5, 0.1]])
    0.5
    """
    return _means(Y_true, scores, ("ranking_loss",))["ranking_loss"]


def coverage(Y_true: MatrixLike, scores: MatrixLike) -> float:
    """How far down the ranking the last positive is, as a share of the labels (lower is better).

    1/n Σ_i ( max_{j in P_i} rank_ij - 1 ) / c, where the worst rank is |P_i| + max_j g_ij.

    Parameters and ties as in :func:`average_precision`. A perfect ranking has (|P_i| - 1) / c, not 0.

    Examples
    --------
    >>> coverage([[1, 0, 1, 0]], [[0.9, 0.5, 0.1, 0.0]])
    0.5
    """
    return _means(Y_true, scores, ("coverage",))["coverage"]


def hamming_loss(Y_true: MatrixLike, scores: MatrixLike, threshold: float = 0.5) -> float:
    """Fraction of wrong entries when label j is predicted iff s_ij >= threshold (lower is better).

    1/(n c) Σ_ij [ (s_ij >= threshold) ≠ (j in P_i) ], over all rows.

    Parameters as in :func:`average_precision`. ``threshold`` is compared in the scores' own precision, so a float32 0.7
    reaches a threshold of 0.7.

    Examples
    --------
    >>> hamming_loss([[1, 0], [1, 0]], [[0.9, 0.1], [0.5, 0.5]])
    0.25
    """
    return _means(Y_true, scores, ("hamming_loss",), threshold)["hamming_loss"]


def macro_average_precision(Y_true: MatrixLike, scores: MatrixLike) -> float:
    """Mean over labels of the average precision of the rows ranked by that label (mAP, higher is better).

    Parameters as in :func:`average_precision`. Labels without a positive or without a negative row are left out; NaN if
    there is no other. Rows with tied scores count as one step, as in scikit-learn.

    Examples
    --------
    >>> macro_average_precision([[1], [0], [1]], [[0.9], [0.5], [0.1]])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    from sklearn.metrics import average_precision_score

    return _mean_over_labels(Y_true, scores, average_precision_score)


def macro_auc(Y_true: MatrixLike, scores: MatrixLike) -> float:
    """Mean over labels of the area under the ROC curve of the rows ranked by that label (higher is better).

    Parameters and labels left out as in :func:`macro_average_precision`; a tied pair counts one half.

    Examples
    --------
    >>> macro_auc([[1], [0], [1]], [[0.9], [0.5], [0.1]])
    0.5
    """
    from sklearn.metrics import roc_auc_score

    return _mean_over_labels(Y_true, scores, roc_auc_score)


def _mean_over_labels(Y_true: MatrixLike, scores: MatrixLike, measure: Callable[..., float]) -> float:
    Y, S = _matrices(Y_true, scores)
    _finite(S, 0)
    truth = np.zeros(S.shape, dtype=bool)
    truth.ravel()[_positives(Y, 0)] = True
    counted = np.flatnonzero(truth.any(axis=0) & ~truth.all(axis=0))
    return float(np.mean([measure(truth[:, j], S[:, j]) for j in counted])) if len(counted) else np.nan


def evaluate(Y_true: MatrixLike, scores: MatrixLike, threshold: float = 0.5) -> dict[str, float]:
    """Return the measures by name, in the order of :data:`METRICS` and :data:`LABEL_METRICS`.

    Parameters as in :func:`average_precision`; ``threshold`` is for Hamming loss.

    Examples
    --------
    >>> evaluate([[1, 0]], [[0.9, 0.1]])["average_precision"]
    1.0
    """
    of_rows = _means(Y_true, scores, METRICS, threshold)
    over_labels = (macro_average_precision(Y_true, scores), macro_auc(Y_true, scores))
    return of_rows | dict(zip(LABEL_METRICS, over_labels, strict=True))


def row_values(
    Y_true: MatrixLike, scores: MatrixLike, names: tuple[str, ...] = METRICS, threshold: float = 0.5
) -> dict[str, NDArray[np.float64]]:
    """Return the named measures of every row, shape (n_samples,); NaN where a row is left out.

    Parameters as in :func:`evaluate`; ``names`` are some of :data:`METRICS`, which are the means of these values.

    Examples
    --------
    >>> row_values([[1, 0], [0, 0]], [[0.9, 0.1], [0.9, 0.1]], ("one_error",))["one_error"].tolist()
    [0.0, nan]
    """
    if not isfinite(threshold):
        raise ValueError(f"expected a finite threshold; got {threshold}: pass a number such as 0.5")
    Y, S = _matrices(Y_true, scores)
    values = dict(zip(names, np.empty((len(names), len(S))), strict=True))
    step = max(1, _CHUNK_ENTRIES // S.shape[1])
    for start in range(0, len(S), step):
        rows = slice(start, start + step)
        measured = _measures(_finite(S[rows], start), _positives(Y[rows], start), threshold)
        for name in names:
            values[name][rows] = measured[name]
    return values


def single_positive_values(observed: NDArray[Any], scores: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return what one known tag per row tells: its reciprocal rank, and whether it is among the first 1, 3 and 5.

    A row's other tags are unknown, so a high-ranked label may well be right: these numbers compare models, they do not
    say how good one is. Ties count against the tag. Of several known tags the best ranked counts. Rows without a known
    tag give NaN.
    """
    known = np.asarray(observed) > 0
    best = np.where(known, scores, -np.inf).max(axis=1)
    ranks = np.where(known.any(axis=1), (np.asarray(scores) >= best[:, None]).sum(axis=1), np.nan).astype(np.float64)
    recalls = {f"recall_at_{k}": np.where(np.isnan(ranks), np.nan, ranks <= k).astype(np.float64) for k in (1, 3, 5)}
    return {"reciprocal_rank": 1.0 / ranks} | recalls


def _means(Y_true: MatrixLike, scores: MatrixLike, names: tuple[str, ...], threshold: float = 0.5) -> dict[str, float]:
    """Return the named measures; ValueError if one of them has no row to judge."""
    means = {}
    for name, values in row_values(Y_true, scores, names, threshold).items():
        counted = values[~np.isnan(values)]
        if not len(counted):
            kind = "a positive and a negative label" if name == "ranking_loss" else "a positive label"
            raise ValueError(
                f"{name} expected at least one row with {kind}; got none: check Y_true, or use another metric"
            )
        means[name] = float(counted.mean())
    return means


def higher_is_better(metric: str) -> bool:
    """Return whether a larger value of the measure means a better model."""
    if metric not in METRIC_TITLES:
        raise ValueError(f"expected a metric among {', '.join(METRIC_TITLES)}; got {metric!r}: choose one of these")
    return metric in ("average_precision", *LABEL_METRICS)


#: Entries of a portion of rows: float32 scores of this size and their sorted copy stay near a core's cache.
_CHUNK_ENTRIES = 1 << 19


def _measures(scores: NDArray[Any], positives: IntArray, threshold: float) -> dict[str, NDArray[np.float64]]:
    """Return the five measures of each row, NaN where it is left out; ``positives`` are flat positions, ascending."""
    n, c = scores.shape
    rows, values = positives // c, scores.ravel().take(positives)
    sizes = np.bincount(rows, minlength=n)
    k = np.arange(1, len(rows) + 1) - (np.cumsum(sizes) - sizes)[rows]
    g = _outranked_by(scores, rows, values, k)
    best, last = k == 1, k == sizes[rows]
    hits = np.bincount(rows, values >= threshold, n)
    taken = np.count_nonzero(scores >= threshold, axis=1)
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: the row is left out
        return {
            "average_precision": np.bincount(rows, k / (k + g), n) / sizes,
            "one_error": np.bincount(rows[best], g[best] > 0, n) / (sizes > 0),
            "ranking_loss": np.bincount(rows, g, n) / (sizes * (c - sizes)),
            "coverage": (sizes - 1 + np.bincount(rows[last], g[last], n)) / np.where(sizes > 0, c, np.nan),
            "hamming_loss": (taken + sizes - 2 * hits) / c,
        }


def _outranked_by(scores: NDArray[Any], rows: IntArray, values: NDArray[Any], k: IntArray) -> IntArray:
    """Return g of the positives, best first in each row, from their rows, their scores and their places k."""
    c = scores.shape[1]
    ordered = np.sort(scores, axis=1).ravel()
    # Binary search for the first occurrence of each positive in its sorted row, all at once. The value is known to be
    # there, so the interval may shrink to one entry without a bounds check.
    below = rows * c
    length = c
    while length > 1:
        half = length // 2
        below += half * (ordered.take(below + (half - 1)) < values)
        length -= half
    # below = row * c + labels scored lower. Reversed inside the row it sorts best first, and integer keys sort much
    # faster than (row, score) pairs would.
    key = np.sort(rows * (3 * c) + (c - below))
    at_least = key - rows * (2 * c)
    # Tied positives share one g: of the labels with this score or a higher one, subtract the positives, whose number
    # is k at the end of the tie.
    ends = np.flatnonzero(np.diff(key, append=-1))
    g: IntArray = at_least - np.repeat(k[ends], np.diff(ends, prepend=-1))
    return g


def _finite(scores: NDArray[Any], start: int) -> NDArray[Any]:
    """Return the scores of a portion of rows, checked; ``start`` is the number of the first row."""
    scores = np.ascontiguousarray(scores)  # a DataFrame often holds its columns side by side
    if scores.dtype == np.float16:
        scores = scores.astype(np.float32)  # NumPy sorts half precision slowly on most processors
    if scores.dtype.kind == "f" and not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise ValueError(
            f"expected finite scores; got {scores[row, column]} in row {start + row}, column {column}: "
            "check the model that produced them, or replace such scores by the lowest one"
        )
    return scores


def _positives(Y: Any, start: int) -> IntArray:
    """Return the flat positions of the 1s of a portion of rows; all other entries must be 0 or -1."""
    stored = Y.data if sparse.issparse(Y) else Y
    positive: NDArray[Any] = stored == 1
    wrong = stored[(stored != 0) & ~positive & (stored != -1)]
    if len(wrong):
        raise ValueError(
            f"expected Y_true with values 1 (positive) and 0 or -1 (negative); got {wrong[0]} in rows "
            f"{start} to {start + Y.shape[0] - 1}: binarise it first, for example Y_true > 0"
        )
    if not sparse.issparse(Y):
        return np.flatnonzero(positive)
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    flat: IntArray = (rows * Y.shape[1] + Y.indices)[positive]  # ascending: the format is canonical
    return flat


def _matrices(Y_true: MatrixLike, scores: MatrixLike) -> tuple[Any, NDArray[Any]]:
    """Return labels and scores of one shape, in the same order of columns."""
    if sparse.issparse(scores):
        raise TypeError("expected scores as an array or DataFrame; got a sparse matrix: call .toarray()")
    Y = _matrix(Y_true, "Y_true", "an indicator matrix with one column per label")
    S = _matrix(scores, "scores", "one score per row and label")
    if Y.shape != S.shape:
        raise ValueError(
            f"expected Y_true and scores of one shape; got {Y.shape} and {S.shape}: "
            "pass the score of every label, in the same rows and columns as Y_true"
        )
    columns, others = (list(getattr(Y_true, "columns", ())), list(getattr(scores, "columns", ())))
    if columns != others and set(columns) == set(others):  # matching by position would be wrong
        raise ValueError(
            f"expected the columns of scores in the order of Y_true ({columns[:3]}…); got {others[:3]}…: "
            "reorder them with scores[Y_true.columns]"
        )
    return Y, S


def _matrix(values: MatrixLike, name: str, what: str) -> Any:
    """Return a 2-D array of real numbers, or a canonical CSR array."""
    matrix: Any
    if sparse.issparse(values):
        matrix = sparse.csr_array(values)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # sum_duplicates works in place, on what may be the caller's arrays
            matrix.sum_duplicates()
    else:
        matrix = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if matrix.dtype == object:
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"expected {name} with numbers only; got an entry that is none ({error}): "
                "convert the columns to numbers and fill missing entries"
            ) from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"expected {name} of shape (n_samples, n_labels), neither of them 0; got shape {matrix.shape}: pass {what}"
        )
    if matrix.dtype.kind not in "buif":
        raise ValueError(f"expected {name} with real numbers; got dtype {matrix.dtype}: pass {what}")
    return matrix

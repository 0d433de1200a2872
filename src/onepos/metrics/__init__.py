"""The paper's five example-based measures of a multi-label ranking.

Write s_ij for the score of label j in row i, P_i for the row's positive labels, N_i for its negative
ones, c for the number of labels, and for a positive label j

    g_ij = |{ l in N_i : s_il >= s_ij }|      the negatives scored at least as high.

**Ties are broken pessimistically**: among labels of one score the negatives come first, then the
positives. Each ranking measure is therefore the worst value that any order of the tied labels could
give, a constant score earns nothing, and the result depends neither on column order nor on a sort.

**Rows**: a row without a positive has no ranking to judge and is left out of the four ranking measures;
ranking loss also leaves out rows without a negative. If no row is left, ``ValueError``. Hamming loss
uses every row.

**Against scikit-learn** (a positive and a negative in every row):

- ``ranking_loss`` equals ``label_ranking_loss``, with and without ties (both count a tie as wrong);
- ``coverage`` equals ``(coverage_error - 1) / c``, with and without ties (both take the worst rank);
- ``average_precision`` equals ``label_ranking_average_precision_score`` unless positives are tied with
  each other below some negative. Two positives tied at ranks 2 and 3 behind a negative count
  (1/2 + 2/3)/2 here and (2/3 + 2/3)/2 there, where all tied positives get the last one's precision;
- scikit-learn has no one-error, and scores a row without a positive as 1 (average precision) or 0
  (ranking loss, coverage error), and a row without a negative as ranking loss 0, where we leave it out.

``Y_true`` may be an array, a DataFrame or sparse, with 1 or True for positive and 0, False or -1 for
negative; ``scores`` an array or DataFrame. Rows are matched by position. Work goes in chunks of rows, so
memory beyond arrays stays at tens of megabytes and float32 scores are never copied to float64.
"""

from collections.abc import Mapping

from onepos._utils.validation import MatrixLike
from onepos.metrics._blocks import means as _means

__all__ = [
    "METRICS",
    "METRIC_TITLES",
    "average_precision",
    "coverage",
    "evaluate",
    "hamming_loss",
    "higher_is_better",
    "one_error",
    "ranking_loss",
]


#: Names of the five measures, in the order in which :func:`evaluate` gives them.
METRICS: tuple[str, ...] = ("average_precision", "one_error", "ranking_loss", "coverage", "hamming_loss")

#: What people call them.
METRIC_TITLES: Mapping[str, str] = {
    "average_precision": "Average precision",
    "one_error": "One-error",
    "ranking_loss": "Ranking loss",
    "coverage": "Coverage",
    "hamming_loss": "Hamming loss",
}


def average_precision(Y_true: MatrixLike, scores: MatrixLike) -> float:
    """Mean over rows of the mean precision at the positives' ranks (higher is better).

    1/n Σ_i 1/|P_i| Σ_k k / (k + g_i(k)), where g_i(k) belongs to the row's k-th best positive: k of the
    k + g_i(k) labels down to it are positive.

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

    Parameters
    ----------
    Y_true : array, DataFrame or sparse of shape (n_samples, n_labels)
        The truth: 1 positive; 0 or -1 negative.
    scores : array or DataFrame of shape (n_samples, n_labels)
        Finite scores.
    threshold : float, default=0.5
        Compared in the scores' own precision, so a float32 0.7 reaches a threshold of 0.7.

    Examples
    --------
    >>> hamming_loss([[1, 0], [1, 0]], [[0.9, 0.1], [0.5, 0.5]])
    0.25
    """
    return _means(Y_true, scores, ("hamming_loss",), threshold)["hamming_loss"]


def evaluate(Y_true: MatrixLike, scores: MatrixLike, threshold: float = 0.5) -> dict[str, float]:
    """All five measures in one pass over the data, which sorts each row once.

    Parameters
    ----------
    Y_true : array, DataFrame or sparse of shape (n_samples, n_labels)
        The truth: 1 positive; 0 or -1 negative.
    scores : array or DataFrame of shape (n_samples, n_labels)
        Finite scores; higher means more likely positive.
    threshold : float, default=0.5
        For Hamming loss only.

    Returns
    -------
    dict
        The names in :data:`METRICS`, in that order, each with its value.

    Examples
    --------
    >>> evaluate([[1, 0]], [[0.9, 0.1]])["average_precision"]
    1.0
    """
    return _means(Y_true, scores, METRICS, threshold)


def higher_is_better(metric: str) -> bool:
    """Whether a larger value of the named measure means a better model (true for average precision only)."""
    if metric not in METRICS:
        raise ValueError(f"expected a metric among {', '.join(METRICS)}; got {metric!r}: choose one of these")
    return metric == "average_precision"

"""The measures of one block of rows, and their means over all blocks."""

from collections.abc import Callable
from math import isfinite

import numpy as np

from onepos import kernels
from onepos._typing import MatrixLike
from onepos.metrics._blocks import COMPILED_FROM, Block, blocks

#: A sum over the rows that count, and their number.
_Partial = tuple[float, int]


def _average_precision(block: Block, threshold: float) -> _Partial:
    block = block.ranked
    k, g = block.outranked_by
    return float((np.bincount(block.rows, weights=k / (k + g)) / block.sizes).sum()), len(block.sizes)


def _one_error(block: Block, threshold: float) -> _Partial:
    block = block.ranked
    best = np.maximum.reduceat(block.values, block.starts)
    at_top = np.bincount(block.rows[block.values == best[block.rows]])
    reached = np.count_nonzero(block.scores >= best[:, None], axis=1)
    return float(np.count_nonzero(reached > at_top)), len(block.sizes)


def _ranking_loss(block: Block, threshold: float) -> _Partial:
    block = block.ranked
    pairs = block.sizes * (block.scores.shape[1] - block.sizes)
    return float((block.wrong_pairs[pairs > 0] / pairs[pairs > 0]).sum()), int(np.count_nonzero(pairs))


def _coverage(block: Block, threshold: float) -> _Partial:
    n_labels = block.scores.shape[1]
    if block.scores.dtype == np.float32 and block.scores.size >= COMPILED_FROM and kernels.loaded():
        from onepos.kernels.ranking import depth_of_last

        depth, n_rows = depth_of_last(block.scores, block.mask)
        return depth / n_labels, n_rows
    if not block.has_many_positives or block.scores.dtype.kind != "f":
        block = block.ranked
    # Every label scored >= the last positive stands before it or is it: their number is its worst rank. In rows without
    # a positive, where the lowest score of one is NaN, no label is.
    n_rows = int(np.count_nonzero(block.lowest == block.lowest))
    depth = np.count_nonzero(block.scores >= block.lowest[:, None]) - n_rows
    return float(depth / n_labels), n_rows


def _hamming_loss(block: Block, threshold: float) -> _Partial:
    hits = np.count_nonzero(block.values >= threshold)
    wrong = np.count_nonzero(block.scores >= threshold) + len(block.values) - 2 * hits
    return float(wrong), block.scores.size


_PARTIALS: dict[str, Callable[[Block, float], _Partial]] = {
    "average_precision": _average_precision,
    "one_error": _one_error,
    "ranking_loss": _ranking_loss,
    "coverage": _coverage,
    "hamming_loss": _hamming_loss,
}


def means(Y_true: MatrixLike, scores: MatrixLike, names: tuple[str, ...], threshold: float = 0.5) -> dict[str, float]:
    if not isfinite(threshold):
        raise ValueError(f"expected a finite threshold; got {threshold}: pass a number such as 0.5")
    totals = dict.fromkeys(names, 0.0)
    counts = dict.fromkeys(names, 0)
    for block in blocks(Y_true, scores):
        # A block without any positive has no rows for the ranking measures, only for Hamming loss.
        for name in names if block.n_positives else set(names) & {"hamming_loss"}:
            total, count = _PARTIALS[name](block, float(threshold))
            totals[name] += total
            counts[name] += count
    for name in names:
        if not counts[name]:
            kind = "a positive and a negative label" if name == "ranking_loss" else "a positive label"
            raise ValueError(
                f"{name} expected at least one row with {kind}; got none: check Y_true, or use another metric"
            )
    return {name: totals[name] / counts[name] for name in names}

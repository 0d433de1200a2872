"""Nuclear norms of row blocks and their proximal step, singular-value thresholding."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

#: Below this part of ‖M‖ a threshold needs singular values that the Gram matrix has lost; then the SVD is taken.
_GRAM_ACCURACY = 1e-5


class Blocks(NamedTuple):
    """The rows of every observed label k: block k is ``rows[bounds[k]:bounds[k + 1]]`` of the design's rows.

    With one observed label per row ``rows`` is None: the design is sorted by label and each row is in one block.
    """

    bounds: NDArray[np.intp]
    rows: NDArray[np.intp] | None
    summing: Any = None  # 0/1 CSR matrix that sums the stacked rows back, None when ``rows`` is

    def gather(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Stack the X_k (or X_k W); a view when every row is in one block."""
        return matrix if self.rows is None else matrix[self.rows]

    def scatter(self, stacked: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum stacked rows back into the design's rows, the transpose of ``gather``."""
        return stacked if self.rows is None else np.asarray(self.summing @ stacked)


def make_blocks(observed: NDArray[np.int8]) -> tuple[NDArray[np.intp], Blocks]:
    """Return the order to sort rows into, and the blocks of the sorted rows.

    Rows with several observed labels belong to several blocks; the order is then as it was.
    """
    rows, columns = np.nonzero(observed > 0)
    by_label = np.argsort(columns, kind="stable")
    counts = np.bincount(columns, minlength=observed.shape[1])
    bounds = np.concatenate([[0], np.cumsum(counts[counts > 0])])
    if len(rows) == len(observed):
        return rows[by_label], Blocks(bounds, None)
    rows = rows[by_label]
    places = (rows, np.arange(len(rows)))
    summing = sparse.csr_array((np.ones(len(rows)), places), shape=(len(observed), len(rows)))
    return np.arange(len(observed)), Blocks(bounds, rows, summing)


def threshold_singular_values(matrix: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """SVT_τ(M) = P (Σ − τ)₊ Qᵀ, which minimises τ‖Z‖_* + ½‖Z − M‖².

    Computed from the eigenvalues of the smaller of MMᵀ and MᵀM, much cheaper than an SVD when a block has a few rows
    and many columns; with a threshold too small for that, from the SVD.

    Examples
    --------
    >>> import numpy as np
    >>> threshold_singular_values(np.diag([3.0, 1.0]), 2.0)
    array([[1., 0.],
           [0., 0.]])
    """
    if threshold <= 0.0:
        return matrix
    if threshold < _GRAM_ACCURACY * float(np.linalg.norm(matrix)):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return np.asarray((left * np.maximum(values - threshold, 0.0)) @ right)
    wide = matrix.shape[0] <= matrix.shape[1]
    squares, vectors = np.linalg.eigh(matrix @ matrix.T if wide else matrix.T @ matrix)
    kept = squares > threshold**2
    if not kept.any():
        return np.zeros_like(matrix)
    basis = vectors[:, kept]
    shrunk = basis * (1.0 - threshold / np.sqrt(squares[kept]))
    return np.asarray(shrunk @ (basis.T @ matrix) if wide else (matrix @ shrunk) @ basis.T)


def nuclear_norm(matrix: NDArray[np.float64]) -> float:
    """‖M‖_*, the sum of singular values, from the smaller Gram matrix; rounding noise in it counts as zero."""
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    squares = np.linalg.eigvalsh(gram)
    noise = len(gram) * np.finfo(np.float64).eps * max(float(squares[-1]), 0.0)
    return float(np.sqrt(squares[squares > noise]).sum())


def threshold_blocks(stacked: NDArray[np.float64], blocks: Blocks, threshold: float) -> NDArray[np.float64]:
    """SVT of every block: the proximal step of τ Σ_k ‖Z_k‖_*, as blocks share no entry."""
    result = np.empty_like(stacked)
    for start, stop in pairwise(blocks.bounds):
        result[start:stop] = threshold_singular_values(stacked[start:stop], threshold)
    return result


def blocks_norm(stacked: NDArray[np.float64], blocks: Blocks) -> float:
    """Σ_k ‖Z_k‖_*."""
    return sum(nuclear_norm(stacked[start:stop]) for start, stop in pairwise(blocks.bounds))

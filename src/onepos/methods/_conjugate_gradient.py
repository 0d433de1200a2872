"""Preconditioned conjugate gradients on a matrix unknown: one system, or one per column, all at once."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float64]
Map: TypeAlias = Callable[[Matrix], Matrix]


def conjugate_gradient(
    operator: Map,
    right_side: Matrix,
    start: Matrix,
    precondition: Map,
    *,
    by_column: bool = False,
    tolerance: float = 1e-10,
    max_iter: int = 500,
) -> tuple[Matrix, int]:
    """Solve A(B) = R for a symmetric positive-definite linear map A of matrices.

    Parameters
    ----------
    operator, precondition : callable
        A and an approximation of its inverse, symmetric positive definite too.
    right_side, start : arrays of one shape
        R and the first guess. Each iteration lowers ½⟨B, A(B)⟩ − ⟨B, R⟩ from there.
    by_column : bool
        Whether A acts on every column by itself: each column then has its own step lengths.
    tolerance : float
        Stop when every residual is at most this part of its right-hand side (Frobenius).

    Returns
    -------
    solution, number of iterations

    Examples
    --------
    >>> import numpy as np
    >>> solution, _ = conjugate_gradient(
    ...     lambda b: 2 * b, np.ones((2, 1)), np.zeros((2, 1)), lambda r: r
    ... )
    >>> solution.ravel().tolist()
    [0.5, 0.5]
    """
    axis = 0 if by_column else None

    def inner(left: Matrix, right: Matrix) -> Matrix:
        return np.asarray(np.einsum("ij,ij->j", left, right) if by_column else np.vdot(left, right))

    solution = start.copy()
    residual = right_side - operator(solution)
    limit = tolerance**2 * inner(right_side, right_side)
    direction = precondition(residual)
    slope = inner(residual, direction)
    for iteration in range(max_iter):
        if np.all(np.sum(residual * residual, axis=axis) <= limit):
            return solution, iteration
        image = operator(direction)
        curvature = inner(direction, image)
        # A column that is solved has direction zero; it stays where it is.
        step = np.divide(slope, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        solution += step * direction
        residual -= step * image
        improved = precondition(residual)
        new_slope = inner(residual, improved)
        ratio = np.divide(new_slope, slope, out=np.zeros_like(slope), where=slope > 0)
        direction = improved + ratio * direction
        slope = new_slope
    return solution, max_iter

"""The paper's protocol: one observed label per row, and a random split into training, validation and test rows."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.validation import (
    FloatArray,
    IntArray,
    MatrixLike,
    csr,
    generator,
    one_of_names,
    short_indices,
    to_dense,
)

Selection = Literal["uniform", "frequency", "dominance", "weights"]


def make_single_positive(
    Y: MatrixLike,
    selection: Selection = "uniform",
    weights: Any = None,
    scores: Any = None,
    *,
    temperature: float = 1.0,
    random_state: Any = None,
) -> MatrixLike:
    """Keep one positive label per row, drawn at random from the row's positives.

    Parameters
    ----------
    Y : ndarray, sparse matrix or DataFrame of shape (n_samples, n_labels)
        Full labels, 0/1, with at least one 1 in every row.
    selection : {"uniform", "frequency", "dominance", "weights"}, default="uniform"
        How probable each positive of a row is: all equally; in proportion to the label's count in ``Y``;
        by the softmax of ``scores`` over the row's positives (the label a model finds most evident is
        observed most often); in proportion to ``weights``.
    weights : array of shape (n_labels,) or (n_samples, n_labels), optional
        Non-negative, for "weights" only; each row needs a positive label with a positive weight.
    scores : array of shape (n_samples, n_labels), optional
        For "dominance" only: logits or other real scores of a model.
    temperature : float, default=1.0
        For "dominance" only: scores are divided by it; near 0 the highest score always wins.
    random_state : None, int, Generator or RandomState
        The same seed gives the same draw for every container type.

    Returns
    -------
    ndarray, sparse matrix or DataFrame of shape (n_samples, n_labels)
        uint8, in the container type of ``Y``, exactly one 1 per row.

    Examples
    --------
    >>> make_single_positive(np.array([[1, 0, 0], [0, 1, 0]]), random_state=0)
    array([[1, 0, 0],
           [0, 1, 0]], dtype=uint8)
    """
    rows, columns, shape = _positives(Y)
    _check_usage(selection, weights, scores, temperature)
    log_weight: FloatArray = np.zeros(len(rows))
    if selection == "frequency":
        log_weight = np.asarray(np.log(np.bincount(columns)[columns]))
    elif selection == "dominance":
        log_weight = _at_positives("scores", scores, rows, columns, shape) / temperature
    elif selection == "weights":
        with np.errstate(divide="ignore"):
            log_weight = np.asarray(np.log(_at_positives("weights", weights, rows, columns, shape)))
    # Gumbel's trick: the largest of log-weight plus Gumbel noise is a draw in proportion to the weights.
    key = log_weight + generator(random_state).gumbel(size=len(rows))
    order = np.lexsort((key, rows))
    last_of_row = np.cumsum(np.bincount(rows, minlength=shape[0])) - 1
    winners = order[last_of_row]
    stuck = np.flatnonzero(np.isneginf(key[winners]))
    if stuck.size:
        raise ValueError(
            f"in {stuck.size} rows (first: row {stuck[0]}) all positives have weight 0: none can be drawn. "
            "Give at least one positive of each row a weight above 0."
        )
    return _in_container(Y, columns[winners], shape)


def _positives(Y: MatrixLike) -> tuple[IntArray, IntArray, tuple[int, int]]:
    """Return row and column of each positive in row order, and the shape."""
    matrix: Any = np.asarray(Y) if not sparse.issparse(Y) else csr(Y, copy=True)  # put in order below
    if sparse.issparse(Y):
        matrix.sum_duplicates()
    shape, stored = matrix.shape, matrix.data if sparse.issparse(Y) else matrix
    if len(shape) != 2 or stored.dtype.kind not in "biuf":
        raise ValueError(f"Y must be a 2-D indicator matrix of 0 and 1; got shape {shape} and dtype {stored.dtype}.")
    if not np.isin(stored, (0, 1)).all():
        raise ValueError("Y must hold only 0 and 1; it holds other values (or NaN). Pass (Y > 0) if that is meant.")
    rows, columns = matrix.nonzero()  # of a sparse matrix without zeros that are stored
    empty = shape[0] - len(np.unique(rows))
    if empty:
        raise ValueError(
            f"{empty} of {shape[0]} rows have no positive label, so none can be drawn. Drop these rows from "
            "X and Y first: keep = np.asarray(Y.sum(axis=1)).ravel() > 0; X, Y = X[keep], Y[keep]."
        )
    return np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64), (shape[0], shape[1])


def _check_usage(selection: str, weights: Any, scores: Any, temperature: float) -> None:
    one_of_names("selection", selection, ("uniform", "frequency", "dominance", "weights"))
    for name, given, owner in (("weights", weights, "weights"), ("scores", scores, "dominance")):
        if (given is not None) != (selection == owner):
            verb = "needs" if given is None else "takes no"
            raise ValueError(f"selection={selection!r} {verb} {name}=; {name}= belongs to selection={owner!r}.")
    if not (np.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature must be a finite number above 0; got {temperature!r}.")


def _at_positives(name: str, given: Any, rows: IntArray, columns: IntArray, shape: tuple[int, int]) -> FloatArray:
    """Return scores or weights at the positives of Y, checked."""
    values = np.asarray(to_dense(given), dtype=np.float64)
    if name == "weights" and values.shape == (shape[1],):
        values = np.broadcast_to(values, shape)
    if values.shape != shape:
        alternative = f" or ({shape[1]},)" if name == "weights" else ""
        raise ValueError(f"{name} must have shape {shape}{alternative}, as Y has; got {values.shape}.")
    if not np.isfinite(values[rows, columns]).all():
        raise ValueError(f"{name} must be finite at the positives of Y; NaN or infinity found.")
    if name == "weights" and (values < 0).any():
        raise ValueError(f"weights must not be negative; the smallest is {values.min()}.")
    return np.asarray(values[rows, columns])


def _in_container(Y: MatrixLike, winners: IntArray, shape: tuple[int, int]) -> MatrixLike:
    n = shape[0]
    if sparse.issparse(Y):
        return type(Y)(csr((np.ones(n, dtype=np.uint8), winners, np.arange(n + 1)), shape=shape))
    indicator: NDArray[np.uint8] = np.zeros(shape, dtype=np.uint8)
    indicator[np.arange(n), winners] = 1
    if hasattr(Y, "columns") and hasattr(Y, "iloc"):
        return type(Y)(indicator, index=Y.index, columns=Y.columns)
    return indicator


PARTS = ("train", "val", "test")
PAPER_FRACTIONS = (0.8, 0.1, 0.1)


def split(
    X: MatrixLike, Y: MatrixLike, *, fractions: Sequence[float] = PAPER_FRACTIONS, random_state: Any = None
) -> Any:
    """Split rows at random into training, validation and test set: 80/10/10, as in the paper.

    X and Y are arrays, sparse matrices or pandas objects with one row per example. ``fractions`` are those of training,
    validation and test rows; they sum to 1, and 0 gives an empty part. The returned Bunch has ``X_train``, ``Y_train``,
    ``X_val``, ``Y_val``, ``X_test``, ``Y_test`` in the containers given, and the row numbers ``train_indices``,
    ``val_indices``, ``test_indices``.
    """
    from sklearn.utils import Bunch

    n, other = (one.shape[0] if hasattr(one, "shape") else len(one) for one in (X, Y))
    if n != other:
        raise ValueError(f"X and Y must have the same number of rows; got {n} and {other}.")
    result = Bunch()
    for part, rows in zip(PARTS, split_indices(n, fractions, random_state), strict=True):
        result |= {f"X_{part}": _take(X, rows), f"Y_{part}": _take(Y, rows), f"{part}_indices": rows}
    return result


def split_indices(
    n: int, fractions: Sequence[float] = PAPER_FRACTIONS, random_state: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the row numbers of training, validation and test set of n rows: disjoint, in random order, all rows.

    Other parameters are those of ``split``. Sizes are rounded to whole rows; a fraction above 0 that gets no row is an
    error.
    """
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.shape != (3,) or not (shares >= 0).all() or not np.isclose(shares.sum(), 1.0) or shares[0] == 0:
        raise ValueError(
            "fractions must be three numbers (training above 0, validation, test) that sum to 1; "
            f"got {tuple(fractions)}."
        )
    bounds = np.rint(np.cumsum(shares) * n).astype(int)
    sizes = np.diff(bounds, prepend=0)
    if ((sizes == 0) & (shares > 0)).any():
        raise ValueError(f"{n} rows are too few for fractions {tuple(fractions)}: one part would be empty.")
    order = generator(random_state).permutation(n)
    train, val, test = np.split(order, bounds[:2])
    return train, val, test


def _take(matrix: MatrixLike, rows: NDArray[np.intp]) -> MatrixLike:
    if hasattr(matrix, "iloc"):
        return matrix.iloc[rows]
    if sparse.issparse(matrix):
        return short_indices(matrix.tocsr()[rows])
    return np.asarray(matrix)[rows]

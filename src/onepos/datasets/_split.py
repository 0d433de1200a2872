"""The paper's protocol: a random split into training, validation and test rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos._typing import MatrixLike
from onepos.datasets._rng import generator
from onepos.datasets._sparse import is_sparse, short_indices

PARTS = ("train", "val", "test")
PAPER_FRACTIONS = (0.8, 0.1, 0.1)


def split(
    X: MatrixLike, Y: MatrixLike, *, fractions: Sequence[float] = PAPER_FRACTIONS, random_state: Any = None
) -> Any:
    """Split rows at random into training, validation and test set: 80/10/10, as in the paper.

    Parameters
    ----------
    X : ndarray, sparse matrix or DataFrame of shape (n_samples, n_features)
    Y : ndarray, sparse matrix, DataFrame or Series of shape (n_samples, n_labels) or (n_samples,)
    fractions : three numbers, default=(0.8, 0.1, 0.1)
        Of training, validation and test rows; they sum to 1, and 0 gives an empty part.
    random_state : None, int, Generator or RandomState

    Returns
    -------
    sklearn.utils.Bunch
        ``X_train``, ``Y_train``, ``X_val``, ``Y_val``, ``X_test``, ``Y_test`` in the containers given, and
        the row numbers ``train_indices``, ``val_indices``, ``test_indices``.
    """
    from sklearn.utils import Bunch

    n, other = _length(X), _length(Y)
    if n != other:
        raise ValueError(f"X and Y must have the same number of rows; got {n} and {other}.")
    result = Bunch()
    for part, rows in zip(PARTS, split_indices(n, fractions, random_state), strict=True):
        result[f"X_{part}"] = _take(X, rows)
        result[f"Y_{part}"] = _take(Y, rows)
        result[f"{part}_indices"] = rows
    return result


def split_indices(
    n: int, fractions: Sequence[float] = PAPER_FRACTIONS, random_state: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the row numbers of training, validation and test set: disjoint, in random order, all rows.

    Parameters
    ----------
    n : int
        Number of rows.
    fractions : three numbers, default=(0.8, 0.1, 0.1)
        Sizes are rounded to whole rows; a fraction above 0 that gets no row is an error.
    random_state : None, int, Generator or RandomState
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


def _length(matrix: MatrixLike) -> int:
    return int(matrix.shape[0]) if hasattr(matrix, "shape") else len(matrix)


def _take(matrix: MatrixLike, rows: NDArray[np.intp]) -> MatrixLike:
    if hasattr(matrix, "iloc"):
        return matrix.iloc[rows]
    if is_sparse(matrix):
        return short_indices(matrix.tocsr()[rows])
    return np.asarray(matrix)[rows]

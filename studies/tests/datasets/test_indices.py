"""Sparse features have indices of 32 bits, which is what scikit-learn's trees take."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier

from onepos._utils.validation import csr, short_indices
from onepos.datasets import split
from onepos_studies.datasets import read
from onepos_studies.datasets._table import stack_matrices
from sparse_case import random_csr


def wide(matrix):
    """The same CSR matrix with indices of 64 bits."""
    made = sparse.csr_array(matrix)
    made.indices, made.indptr = made.indices.astype(np.int64), made.indptr.astype(np.int64)
    return made


@pytest.fixture
def files(tmp_path):
    """The same small matrix as npz, sparse ARFF and MAT."""
    from scipy.io import savemat

    X = random_csr((40, 9), 0.3)
    Y = np.eye(3, dtype=np.int8)[np.arange(40) % 3]
    parts = wide(X)
    np.savez(
        tmp_path / "a.npz", X_data=parts.data, X_indices=parts.indices, X_indptr=parts.indptr, X_shape=X.shape, Y=Y
    )
    attributes = "".join(f"@attribute f{j} numeric\n" for j in range(9)) + "".join(
        f"@attribute l{j} {{0,1}}\n" for j in range(3)
    )
    sparse_rows = [
        "{" + ",".join(f"{j} {value}" for j, value in enumerate([*row, *labels]) if value) + "}"
        for row, labels in zip(X.toarray(), Y, strict=True)
    ]
    (tmp_path / "a.arff").write_text(f"@relation t\n{attributes}@data\n" + "\n".join(sparse_rows) + "\n")
    savemat(tmp_path / "a.mat", {"X": sparse.csc_matrix(X), "Y": Y.astype(float)})
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options"), [("a.npz", {}), ("a.arff", {"labels": ["l0", "l1", "l2"]}), ("a.mat", {})]
)
def test_every_reader_gives_what_a_forest_takes(files, name, options):
    table = read(files / name, **options)
    assert sparse.issparse(table.X)
    assert table.X.indices.dtype == table.X.indptr.dtype == np.int32
    parts = split(table.X, table.Y, random_state=0)
    assert parts.X_train.indices.dtype == parts.X_train.indptr.dtype == np.int32
    forest = ExtraTreesClassifier(5, random_state=0).fit(parts.X_train, parts.Y_train.argmax(axis=1))
    assert len(forest.predict(parts.X_test)) == 4


def test_rows_of_a_wide_matrix_are_narrow_and_equal():
    matrix = wide(random_csr((30, 5), 0.4))
    parts = split(matrix, np.zeros((30, 2)), random_state=0)
    assert parts.X_val.indices.dtype == np.int32
    np.testing.assert_array_equal(parts.X_val.toarray(), matrix.toarray()[parts.val_indices])
    for made in (csr(matrix), *(stack_matrices([matrix, matrix], axis=axis) for axis in (0, 1))):
        assert made.indices.dtype == made.indptr.dtype == np.int32
    assert matrix.indices.dtype == np.int64  # what was given stays


def test_indices_that_do_not_fit_stay():
    huge = sparse.csr_array(([1.0], np.array([2**40], dtype=np.int64), np.array([0, 1], dtype=np.int64)), (1, 2**41))
    assert short_indices(huge).indices.dtype == np.int64

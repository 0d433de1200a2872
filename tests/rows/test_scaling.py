import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from onepos.rows.scaling import check_magnitude, fit_scaler
from sparse_case import random_csr

X = np.random.default_rng(0).normal(3.0, [1.0, 50.0, 0.01], size=(200, 3))


@pytest.mark.parametrize(("kind", "reference"), [("standard", StandardScaler()), ("minmax", MinMaxScaler())])
def test_equals_scikit_learn(kind, reference):
    assert np.allclose(fit_scaler(X, kind).transform(X), reference.fit_transform(X), atol=1e-5)


def test_sparse_minmax_divides_by_the_largest_magnitude():
    matrix = random_csr((50, 8), 0.2)
    scaled = fit_scaler(matrix, "minmax").transform(matrix)
    assert sparse.issparse(scaled)
    assert np.allclose(scaled.toarray(), MaxAbsScaler().fit_transform(matrix).toarray(), atol=1e-6)


def test_sparse_standard_gives_unit_mean_square_without_shifting_zero():
    matrix = random_csr((400, 5), 0.3, seed=1)
    scaled = fit_scaler(matrix, "standard").transform(matrix)
    assert scaled.nnz == matrix.nnz
    assert np.allclose((scaled.toarray() ** 2).mean(axis=0), 1.0, atol=1e-5)


def test_constant_and_nearly_constant_columns_become_zero_not_noise():
    flat = np.column_stack([np.full(10, 0.1) * 3, np.full(10, 1e30), np.arange(10.0)])
    scaled = fit_scaler(flat, "standard").transform(flat)
    assert np.isfinite(scaled).all()
    assert np.abs(scaled[:, :2]).max() < 1e-3


def test_auto_leaves_binary_and_sparse_alone():
    assert fit_scaler(np.array([[0.0, 1.0], [1.0, 1.0]]), "auto").kind == "none"
    assert fit_scaler(sparse.csr_array(X), "auto").kind == "none"
    assert fit_scaler(X, "auto").kind == "standard"


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_features_beyond_float32_are_refused_after_scaling_too(wrap):
    X = np.array([[1.0, -2.0], [3.0, 4.0], [-5.0, 6.0]])
    scaler = fit_scaler(wrap(X * 1e-30), "standard")
    assert np.isfinite(scaler.transform(wrap(X * 1e-30)).sum())
    with pytest.raises(ValueError, match=r"stay below 3.4e\+38 after scaling"):
        scaler.transform(wrap(X * 1e20))


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_the_largest_feature_is_the_largest_number_of_float32(wrap):
    limit = float(np.finfo(np.float32).max)
    check_magnitude(wrap(np.array([[limit, -limit]])))
    for beyond in (np.nextafter(limit, np.inf), -np.nextafter(limit, np.inf), 1e300):
        with pytest.raises(ValueError, match="the range of float32"):
            check_magnitude(wrap(np.array([[1.0, beyond]])))

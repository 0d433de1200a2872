"""What the compiled graph encoder reads and computes, against NumPy, SciPy and automatic differentiation."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

pytest.importorskip("numba")

from onepos import kernels
from onepos.graph.neighborhoods import CompiledNeighborhood, look_up
from onepos.graph.sparse_product import SparseRows
from onepos.kernels.graph import take_rows
from onepos.methods.smile.encoder import GraphEncoder
from onepos.methods.smile.encoder_pass import CompiledEncoderPass
from onepos.training import backpropagation, losses


def _table(n, k, seed):
    rng = np.random.default_rng(seed)
    others = [rng.choice(np.delete(np.arange(n), i), k, replace=False) for i in range(n)]
    return np.column_stack([np.arange(n), others])


@given(n=st.integers(2, 60), k=st.integers(1, 8), size=st.integers(1, 30), seed=st.integers(0, 999))
def test_neighborhoods_are_those_of_numpy(n, k, size, seed):
    table, rng = _table(n, min(k, n - 1), seed), np.random.default_rng(seed)
    rows, seen = torch.from_numpy(rng.permutation(n)[:size]), np.zeros(n, dtype=np.int32)
    found = CompiledNeighborhood(table, rows, 0.3, seen)
    (expected,) = look_up(table, [rows], 0.3)
    assert not seen.any()  # or the next batch would be wrong
    np.testing.assert_array_equal(found.needed, expected.needed)
    torch.testing.assert_close(found.pooling.times(torch.eye(len(found.needed))), expected.pooling)
    assert torch.equal(found.linked, expected.linked)


@given(seed=st.integers(0, 999), density=st.floats(0.0, 1.0), n_columns=st.integers(1, 20))
def test_rows_of_a_sparse_matrix_and_their_transpose_are_those_of_scipy(seed, density, n_columns):
    rng = np.random.default_rng(seed)
    matrix = sparse.random_array((30, n_columns), density=density, format="csr", dtype=np.float32, rng=rng)
    kept, rows = SparseRows(matrix), rng.integers(30, size=rng.integers(1, 40))
    parts = take_rows(kept.starts, kept.columns, kept.values, rows, n_columns)
    expected = matrix[rows]
    for found, wanted in zip(parts, (expected.indptr, expected.indices, expected.data), strict=False):
        np.testing.assert_array_equal(found, wanted)
    turned = sparse.csr_array((parts[5], parts[4], parts[3]), shape=(n_columns, len(rows)))
    np.testing.assert_array_equal(turned.toarray(), expected.toarray().T)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("bound", [6.0, 0.2])
def test_encoder_equals_automatic_differentiation(is_sparse, bound):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(40, 12, generator=generator)
    if is_sparse:
        features = features * (torch.rand(40, 12, generator=generator) < 0.15)
    table = torch.from_numpy(_table(40, 4, 0))
    encoder = GraphEncoder(features, table, 9, 5, self_weight=0.4, log_bound=bound, generator=generator)
    with torch.no_grad():
        encoder.first.bias.uniform_(-0.5, 0.5, generator=generator)
        encoder.second.bias.uniform_(-0.5, 0.5, generator=generator)
    rows = torch.tensor([3, 17, 4, 39, 0, 21])
    expected = torch.cat(encoder(rows), dim=1)
    direction = torch.randn(expected.shape, generator=generator)
    passed = encoder.evaluate(rows)
    assert isinstance(passed, CompiledEncoderPass)
    torch.testing.assert_close(passed.log_parameters, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(passed.means(), torch.sigmoid(expected[:, :5] - expected[:, 5:]), rtol=1e-5, atol=1e-6)
    found = passed.gradients(direction)
    wanted = torch.autograd.grad((expected * direction).sum(), list(found))
    torch.testing.assert_close(list(found.values()), list(wanted), rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 999), bound=st.floats(0.05, 5.0), n_observed=st.integers(0, 3))
def test_risk_equals_automatic_differentiation(seed, bound, n_observed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, 5, generator=generator).mul_(3.0).requires_grad_()
    soft, positives = torch.rand(7, 5, generator=generator), torch.zeros(7, 5)
    positives[:, :n_observed] = 1.0
    value, slopes = backpropagation.single_positive_risk(logits.detach(), soft, positives, bound)
    weights = losses.risk_weights(logits, positives, bound)
    expected = losses.binary_cross_entropy(logits, soft, weights)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(slopes, torch.autograd.grad(expected, logits)[0], rtol=1e-4, atol=1e-6)


def test_risk_in_double_precision_is_left_to_torch(monkeypatch):
    logits, soft = torch.zeros(2, 3, dtype=torch.float64), torch.full((2, 3), 0.5, dtype=torch.float64)
    positives = torch.eye(2, 3, dtype=torch.float64)
    found = backpropagation.single_positive_risk(logits, soft, positives, 1.0)
    monkeypatch.setattr(kernels, "available", lambda: False)
    expected = backpropagation.single_positive_risk(logits, soft, positives, 1.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)

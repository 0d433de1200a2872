"""Sparse rows against dense ones: values, gradients, empty rows, repeated rows."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from onepos.methods.smile.encoder import sparse_product
from sparse_case import random_csr


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**16),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 9), st.integers(1, 5)),
    density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    n_rows=st.integers(1, 20),
)
def test_equals_the_dense_product(seed, shape, density, n_rows):
    n, q, h = shape
    rng = np.random.default_rng(seed)
    matrix = random_csr((n, q), density, seed)
    rows = rng.integers(0, n, n_rows)
    weight = torch.from_numpy(rng.normal(size=(q, h))).requires_grad_()
    direction = torch.from_numpy(rng.normal(size=(n_rows, h)))
    batch = matrix[rows]
    dense = torch.from_numpy(matrix.toarray()[rows])
    product, expected = sparse_product(batch, weight), dense @ weight
    assert torch.allclose(product, expected, atol=1e-12)
    (found,) = torch.autograd.grad((product * direction).sum(), weight)
    (wanted,) = torch.autograd.grad((expected * direction).sum(), weight)
    assert torch.allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_takes_the_precision_of_the_dense_matrix(dtype):
    batch = sparse.csr_array(np.eye(4, dtype=np.float32))[[1, 3]]
    weight = torch.ones(4, 2, dtype=dtype, requires_grad=True)
    product = sparse_product(batch, weight)
    product.sum().backward()
    assert product.dtype == weight.grad.dtype == dtype

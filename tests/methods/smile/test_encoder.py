"""The batch-local encoder against a graph network over all nodes, forward and gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from onepos.graph.neighbors import nearest_neighbors
from onepos.methods.smile.encoder import GraphEncoder


def _problem(n=60, q=7, k=4, labels=5, seed=0, zeros=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q)) * (rng.random((n, q)) >= zeros)
    neighbors, _ = nearest_neighbors(X, k)
    average = torch.zeros(n, n, dtype=torch.float64)  # Â, dense: fine at this size
    average.scatter_(1, torch.from_numpy(neighbors), 0.5 / k)
    average.fill_diagonal_(0.5)
    inputs, generator = average @ torch.from_numpy(X), torch.Generator().manual_seed(seed)
    encoder = GraphEncoder(inputs, neighbors, labels, generator).double()
    return torch.from_numpy(X), average, encoder


def _full_graph(X, average, encoder):
    hidden = torch.relu(average @ (X @ encoder.first_weight) + encoder.first_bias)
    out = average @ hidden @ encoder.second.weight.T + encoder.second.bias
    return out.clamp(-encoder.log_bound, encoder.log_bound)


@pytest.mark.parametrize("zeros", [0.0, 0.97])
@pytest.mark.parametrize("batch", [[3], [0, 1, 2, 3, 4], list(range(60)), [5, 5, 9]])
def test_batch_encoder_equals_the_full_graph_network(batch, zeros):
    X, average, encoder = _problem(zeros=zeros)
    assert sparse.issparse(encoder.aggregated) == (zeros > 0)
    rows = torch.tensor(batch)
    local = encoder(rows)
    everywhere = _full_graph(X, average, encoder)[rows]
    assert (local - everywhere).abs().max() < 1e-10

    direction = torch.randn(local.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    by_batch = torch.autograd.grad((local * direction).sum(), list(encoder.parameters()))
    by_graph = torch.autograd.grad((everywhere * direction).sum(), list(encoder.parameters()))
    for one, other in zip(by_batch, by_graph, strict=True):
        assert (one - other).abs().max() < 1e-10


def test_output_is_bounded():
    _, _, encoder = _problem()
    with torch.no_grad():
        encoder.second.weight.mul_(1e6)
    assert encoder(torch.arange(60)).abs().max() <= encoder.log_bound


@given(n=st.integers(2, 60), k=st.integers(1, 8), size=st.integers(1, 30), seed=st.integers(0, 999))
def test_links_are_those_of_the_whole_graph(n, k, size, seed):
    rng = np.random.default_rng(seed)
    neighbors = np.array([rng.choice(np.delete(np.arange(n), i), min(k, n - 1), replace=False) for i in range(n)])
    rows = rng.permutation(n)[:size]
    encoder = GraphEncoder(torch.zeros(n, 2), neighbors, 2)
    expected = [[float(i in neighbors[j]) for j in rows] for i in rows]
    np.testing.assert_array_equal(encoder.linked(torch.from_numpy(rows)), expected)

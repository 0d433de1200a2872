"""The batch-local encoder against a graph network over all nodes, forward and gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from onepos.graph.neighbors import adjacency, nearest_neighbors
from onepos.methods.smile.encoder import GraphEncoder, Neighborhood


def _problem(n=60, q=7, k=4, labels=5, hidden=11, seed=0, zeros=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q)) * (rng.random((n, q)) >= zeros)
    neighbors, _ = nearest_neighbors(X, k)
    neighborhoods = torch.from_numpy(np.column_stack([np.arange(n), neighbors]))
    average = torch.zeros(n, n, dtype=torch.float64)  # Â, dense: fine at this size
    average.scatter_(1, neighborhoods[:, 1:], 0.7 / k)
    average.fill_diagonal_(0.3)
    encoder = GraphEncoder(
        average @ torch.from_numpy(X),
        neighborhoods,
        hidden,
        labels,
        self_weight=0.3,
        generator=torch.Generator().manual_seed(seed),
    ).double()
    return torch.from_numpy(X), average, encoder


def _full_graph(X, average, encoder):
    hidden = torch.relu(average @ (X @ encoder.first.weight) + encoder.first.bias)
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


@pytest.mark.parametrize("zeros", [0.0, 0.97])
@pytest.mark.parametrize("scale", [1.0, 40.0])  # 40: outputs reach their bounds
def test_kernels_equal_automatic_differentiation(zeros, scale, request):
    _, _, encoder = _problem(zeros=zeros)
    encoder.float().use_graph(torch.randn(60, 7) if zeros == 0.0 else encoder.aggregated, encoder.neighborhoods)
    with torch.no_grad():
        encoder.second.weight.mul_(scale)
        encoder.first.bias.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([3, 17, 4, 59, 0, 21])
    direction = torch.randn(6, 10, generator=torch.Generator().manual_seed(1))

    def computed():
        output = encoder(rows)
        return output.detach(), torch.autograd.grad(output, list(encoder.parameters()), direction)

    output, gradients = computed()
    request.getfixturevalue("without_kernels")
    expected, expected_gradients = computed()
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-4)


@given(n=st.integers(2, 60), k=st.integers(1, 8), size=st.integers(1, 30), seed=st.integers(0, 999))
def test_rows_places_and_links_are_those_of_the_whole_graph(n, k, size, seed):
    rng = np.random.default_rng(seed)
    others = [rng.choice(np.delete(np.arange(n), i), min(k, n - 1), replace=False) for i in range(n)]
    table, rows = np.column_stack([np.arange(n), others]), rng.permutation(n)[:size]
    found = Neighborhood(table, rows)
    assert found.needed.tolist() == sorted(set(table[rows].ravel().tolist()))
    np.testing.assert_array_equal(found.needed[found.places], table[rows])
    np.testing.assert_array_equal(found.linked, adjacency(table[:, 1:], n).toarray()[np.ix_(rows, rows)])

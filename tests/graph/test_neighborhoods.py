"""Neighbourhoods of several batches at once, against Â and A of the whole graph and against one batch at a time."""

import numpy as np
import pytest
import torch

from onepos.graph import neighborhoods
from onepos.graph.neighborhoods import look_up
from onepos.graph.sparse_product import SparseRows
from onepos.methods.smile.encoder import GraphEncoder
from onepos.methods.smile.enhancement import links


def _graph(n=50, k=4, seed=0):
    rng = np.random.default_rng(seed)
    others = np.array([rng.permutation(np.delete(np.arange(n), row))[:k] for row in range(n)])
    return np.column_stack([np.arange(n), others])


def _batches(sizes, n=50, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(n, generator=generator)[:size] for size in sizes]  # rows may be in several batches


@pytest.mark.parametrize("dense_up_to", [0, 60, 20_000])  # sparse, mixed, dense pooling
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_are_the_batches_rows_of_the_whole_graph(monkeypatch, dense_up_to, dtype):
    monkeypatch.setattr(neighborhoods, "DENSE_POOLING", dense_up_to)
    table, batches = _graph(), _batches([3, 16, 1, 50])
    average = torch.zeros(50, 50, dtype=torch.float64)
    average.scatter_(1, torch.from_numpy(table[:, 1:]), 0.7 / 4)
    average.fill_diagonal_(0.3)
    for rows, found in zip(batches, look_up(table, batches, 0.3, dtype), strict=True):
        assert found.needed.tolist() == sorted(set(table[rows].ravel().tolist()))
        identity = torch.eye(len(found.needed), dtype=dtype)
        is_dense = len(rows) * len(found.needed) <= dense_up_to
        assert isinstance(found.pooling, torch.Tensor) == is_dense
        pooling = found.pooling if is_dense else found.pooling.times(identity)
        assert pooling.dtype == found.linked.dtype == dtype
        torch.testing.assert_close(pooling.double(), average[rows][:, found.needed], rtol=1e-6, atol=0)
        assert torch.equal(found.linked.bool(), links(rows, torch.from_numpy(table[rows.numpy(), 1:])))


def test_every_block_is_aligned():
    """Else the last bits of a product depend on which batches were looked up together."""
    for found in look_up(_graph(), _batches([3, 5, 7, 16]), 0.5):
        assert found.pooling.data_ptr() % 64 == 0
        assert found.linked.data_ptr() % 64 == 0


@pytest.mark.parametrize("share", [0.1, 1.0])  # sparse and dense first layer
def test_looking_ahead_changes_nothing(share, without_kernels):
    generator = torch.Generator().manual_seed(0)
    aggregated = torch.randn(50, 30, generator=generator) * (torch.rand(50, 30, generator=generator) < share)
    encoder = GraphEncoder(aggregated, torch.from_numpy(_graph()), 8, 4, self_weight=0.5, generator=generator)
    assert isinstance(encoder.aggregated, SparseRows) == (share < 1.0)
    batches = torch.split(torch.randperm(50, generator=generator), 8)
    by_output = torch.randn(8, 8, generator=generator)

    def results(rows):
        passed = encoder.evaluate(rows)
        found = passed.gradients(by_output[: len(rows)])
        return [passed.log_parameters, encoder.linked(rows), *(found[p] for p in encoder.parameters())]

    with torch.no_grad():
        expected = [results(rows.clone()) for rows in batches]
        encoder.look_ahead(batches)
        for place in (0, 1, 2):
            torch.testing.assert_close(results(batches[place]), expected[place])
        other = batches[5].clone()  # what nobody announced
        torch.testing.assert_close(results(other), expected[5])
        for place in (3, 4, 5, 6):
            torch.testing.assert_close(results(batches[place]), expected[place])


def test_rows_cut_out_together_are_those_cut_out_alone():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(20, 7)) * (rng.random((20, 7)) < 0.3)
    rows, firsts = rng.integers(0, 20, 12), np.array([0, 5, 5, 6, 12])
    parts = SparseRows(dense).take(rows).split(firsts)
    weight, gradient = torch.from_numpy(rng.normal(size=(7, 3))), torch.from_numpy(rng.normal(size=(12, 3)))
    for part, first, last in zip(parts, firsts[:-1], firsts[1:], strict=True):
        own = torch.from_numpy(dense[rows[first:last]])
        torch.testing.assert_close(part.times(weight), own @ weight)
        torch.testing.assert_close(part.transposed.times(gradient[first:last]), own.t() @ gradient[first:last])

"""The cost model: its counts are those of the networks, its prices come back from made-up measurements."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # scripts side by side, not a package

import at_scale
import cost_model
import problems
from bench_growth import make
from cost_model import Sizes

import onepos.methods._neural
from onepos.training import Callback, Processes


class CountWeights(Callback):
    """Notes how many weights are trained."""

    n = 0

    def on_train_begin(self, objective, max_epochs):
        self.n = sum(parameter.numel() for parameter in objective.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("method", ["AN", "SMILE"])
@pytest.mark.parametrize("q", [5, 40])
def test_the_weights_counted_are_the_weights_trained(method, q):
    sizes = Sizes(n=60, q=q, c=7, k=3, batch=32)
    count = CountWeights()
    graph = {"n_neighbors": sizes.k} if method == "SMILE" else {}
    model = make(method, sizes.batch, **graph).set_params(max_epochs=1)
    model.fit(problems.mixture(sizes.n, sizes.q), problems.one_label_each(sizes.n, sizes.c), callbacks=[count])
    assert cost_model.parameters(method, sizes) == count.n


@pytest.mark.parametrize("method", ["AN", "SMILE"])
def test_prices_come_back_from_costs_that_follow_them(method):
    sizes = [
        Sizes(n=n, q=q, c=c, k=k, batch=b)
        for n in (100, 999)
        for q in (8, 64)
        for c in (4, 90)
        for k in (5, 9)
        for b in (16, 64)
    ]
    counts = [cost_model.time_counts(method, size) for size in sizes]
    true = dict(zip(counts[0], (2e-4, 3e-11, 0.0, 5e-9, 1e-9, 2e-10, 4e-9), strict=False))
    measured = [sum(true[name] * value for name, value in row.items()) for row in counts]
    prices = cost_model.fit_prices(counts, measured)
    unseen = cost_model.time_counts(method, Sizes(n=10**8, q=128, c=1000))
    expected = sum(true[name] * value for name, value in unseen.items())
    assert prices.predict(unseen) == pytest.approx(expected, rel=1e-6)


def test_steps_are_counted_with_the_last_short_one():
    assert [Sizes(n=n, q=2, c=2, batch=10).steps for n in (1, 10, 11)] == [1, 1, 2]


class Counting(Processes):
    """The first of two processes, whose other one has nothing to add; counts the numbers of each message."""

    size = 2

    def __init__(self):
        self.added = []

    def sum(self, tensors):
        self.added.append(sum(tensor.numel() for tensor in tensors))
        return tensors

    def gather_values(self, value):
        return [value] * self.size


@pytest.mark.parametrize("method", ["AN", "SMILE"])
def test_the_numbers_sent_in_a_step_are_those_counted(method, monkeypatch, tmp_path):
    processes = Counting()
    monkeypatch.setattr(onepos.methods._neural, "join", lambda device: processes)
    sizes = Sizes(n=64, q=5, c=7, k=3, batch=16)
    graph = {"n_neighbors": sizes.k, "cache_folder": str(tmp_path)} if method == "SMILE" else {}
    model = make(method, sizes.batch, **graph).set_params(max_epochs=1)
    per_step = {}

    class EndOfStep(Callback):
        def on_batch_end(self, done, total):
            per_step[done] = sum(processes.added)

    model.fit(problems.mixture(sizes.n, sizes.q), problems.one_label_each(sizes.n, sizes.c), callbacks=[EndOfStep()])
    steps = sorted(per_step)
    assert len(steps) == sizes.steps
    grown = [per_step[j] - per_step[i] for i, j in pairwise(steps)]
    assert grown == [cost_model.messages(method, sizes)] * (sizes.steps - 1)


def test_a_ring_of_two_passes_every_gradient_and_the_loss_once():
    sizes = Sizes(n=10, q=3, c=2, batch=10, hidden=4)
    assert cost_model.parameters("AN", sizes) == 3 * 4 + 4 + 4 * 2 + 2
    assert cost_model.traffic("AN", sizes, 2) == 4 * (26 + 1)
    assert cost_model.traffic("AN", sizes, 1) == 0


def test_processes_divide_the_work_on_rows_and_not_the_steps():
    sizes = Sizes(n=1000, q=3, c=2, batch=10)
    whole, share = cost_model.time_counts("SMILE", sizes), cost_model.share_of_time("SMILE", sizes, 4)
    assert cost_model.share_of_time("SMILE", sizes, 1) == whole
    same = {name for name in whole if share[name] == whole[name]}
    assert same == {"steps", "weights updated"}
    assert share["links"] == whole["links"] / 16  # pairs of rows of the same portion
    assert all(share[name] == whole[name] / 4 for name in set(whole) - same - {"links"})


def test_a_plan_is_made_of_stored_prices():
    lines = [
        {"case": "AN, epoch", "measure": f"price of {name}", "value": value, "unit": "ns"}
        for name, value in zip(cost_model.time_counts("AN", Sizes(1, 1, 1)), (0.0, 0.0, 36.0, 0.0, 0.0), strict=True)
    ]
    lines += [
        {"case": "AN, memory", "measure": f"price of {name}", "value": value, "unit": "bytes"}
        for name, value in (("process", 1e9), ("features", 4.0), ("label entries", 1.0))
    ]
    lines.append({"case": "AN, epoch", "measure": "error of the prediction", "value": 5.0, "unit": "%"})
    prices = at_scale.stored_prices({"sections": {"scale": {"records": lines}}})
    sizes = Sizes(n=10**8, q=100, c=1000, batch=1000)
    machine = at_scale.Machine(cores=2, gigabits=10.0, price=3.0)
    one, two, four = (at_scale.plan(prices, "AN", sizes, p, epochs=10, machine=machine) for p in (1, 2, 4))
    assert one["epoch, hours"] == pytest.approx(1.0)  # 10¹¹ entries at 36 ns
    assert one["of it sending, %"] == two["of it sending, %"] == 0  # on one machine
    assert two["epoch, hours"] == pytest.approx(0.5)
    assert (one["all, hours"], one["cost"]) == pytest.approx((10.0, 30.0))
    sent = 10**5 * 4 * 2 * (cost_model.parameters("AN", sizes) + 1) * 0.75 * 8 / 10e9
    assert four["epoch, hours"] == pytest.approx(0.25 + sent / 3600)
    assert (four["machines"], four["cost"]) == (2, pytest.approx(2 * 3.0 * 10 * (0.25 + sent / 3600)))
    assert one["memory of process 0, GB"] == four["memory of a process, GB"] == pytest.approx(1 + 100)
    assert one["files, GB"] == pytest.approx(40)
    shown = list(at_scale.table([one, four]))
    assert shown[0].startswith("| processes | machines |")
    assert shown[2].startswith("| 1 | 1 |")


def test_smile_holds_the_graph_in_every_process_and_the_index_in_process_0():
    names = ("process", "features", "label entries", "neighbours")
    memory = cost_model.Prices(dict(zip(names, (1e9, 99.0, 1.0, 8.0), strict=True)))
    free = cost_model.Prices(dict.fromkeys(cost_model.time_counts("SMILE", Sizes(1, 1, 1)), 1e-9))
    prices = {"SMILE, epoch": free, "SMILE, memory": memory, "graph": cost_model.Prices({"comparisons": 3.6e-9})}
    sizes = Sizes(n=10**6, q=200, c=1000, k=10)
    made = at_scale.plan(prices, "SMILE", sizes, 4, epochs=1, machine=at_scale.Machine(cores=2))
    assert made["graph, hours"] == pytest.approx(10**9 * 200 * 1e-12 / 2)
    assert made["memory of process 0, GB"] == pytest.approx(1 + 1 + 0.08 + 4 * 0.128)  # 128 directions at most
    assert made["memory of a process, GB"] == pytest.approx(1 + 1 + 0.08)
    assert made["files, GB"] == pytest.approx(2 * 0.8)

"""The cost model: its counts are those of the networks, its prices come back from made-up measurements."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))  # scripts side by side, not a package

import at_scale
import cost_model
import problems
from bench_growth import make
from cost_model import Sizes

from onepos.training import Callback


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
    true = dict(zip(counts[0], (2e-4, 3e-11, 0.0, 5e-9, 1e-9), strict=True))
    measured = [sum(true[name] * value for name, value in row.items()) for row in counts]
    prices = cost_model.fit_prices(counts, measured)
    unseen = cost_model.time_counts(method, Sizes(n=10**8, q=128, c=1000))
    expected = sum(true[name] * value for name, value in unseen.items())
    assert prices.predict(unseen) == pytest.approx(expected, rel=1e-6)


def test_steps_are_counted_with_the_last_short_one():
    assert [Sizes(n=n, q=2, c=2, batch=10).steps for n in (1, 10, 11)] == [1, 1, 2]


def test_a_ring_of_two_passes_every_gradient_once():
    sizes = Sizes(n=10, q=3, c=2, hidden=4)
    assert cost_model.parameters("AN", sizes) == 3 * 4 + 4 + 4 * 2 + 2
    assert cost_model.traffic("AN", sizes, 2) == 4 * 26
    assert cost_model.traffic("AN", sizes, 1) == 0


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
    one, four = (at_scale.plan(prices, "AN", sizes, p, epochs=10, gigabits=10.0) for p in (1, 4))
    assert one["epoch, hours"] == pytest.approx(1.0)  # 10¹¹ entries at 36 ns
    assert one["of it sending, %"] == 0
    assert one["all epochs, core-hours"] == pytest.approx(10.0)
    assert one["memory of a process, GB"] == pytest.approx(1 + 40 + 100)
    sent = 10**5 * 4 * cost_model.parameters("AN", sizes) * 1.5 * 8 / 10e9
    assert four["epoch, hours"] == pytest.approx(0.25 + sent / 3600)
    assert four["memory of a process, GB"] == pytest.approx(1 + 10 + 25)
    shown = list(at_scale.table([one, four]))
    assert shown[0].startswith("| processes | epoch, hours |")
    assert shown[2].startswith("| 1 | 1 |")

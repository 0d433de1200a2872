"""The loop: one step per yielded loss, best epoch restored, interrupts and divergence survived, runs repeat."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from onepos._utils import context
from onepos.exceptions import TrainingWarning
from onepos.training import Batch, Callback, History, Objective, Schedule, TrainingRows, train
from onepos.training.machine import limited_threads, useful_threads
from onepos.training.networks import MLP, Dropout
from onepos.training.steps import with_rate_factors


class LeastSquares(Objective):
    """Logits regress on the observed labels: a convex problem with a known answer."""

    def losses(self, batch: Batch):
        yield "squares", (self.network(batch.features) - batch.observed.float()).square().mean()


def _rows(n=64, q=3, c=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q)).astype(np.float32)
    observed = np.eye(c, dtype=np.int8)[(X[:, 0] > 0).astype(int)]
    return TrainingRows.from_arrays(X, observed, np.arange(n))


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _linear(seed=0):
    return MLP([3, 2], generator=_generator(seed))


def test_reaches_the_least_squares_solution():
    rows = _rows()
    objective = LeastSquares(_linear())
    for rate in (0.03, 0.003, 0.0003):
        train(objective, rows, Schedule(100, 16, rate), _generator())
    design = np.column_stack([rows.features.numpy(), np.ones(64)])
    solution, *_ = np.linalg.lstsq(design, rows.observed.numpy().astype(float), rcond=None)
    assert np.allclose(objective.network[0].weight.detach().numpy(), solution[:-1].T, atol=5e-3)


def test_one_optimiser_step_after_each_yield():
    """Code after a yield sees parameters already updated: that is what makes updates alternate."""
    seen = []

    class Alternating(Objective):
        def __init__(self):
            super().__init__(nn.Linear(3, 2))
            self.first = nn.Parameter(torch.ones(()))
            self.second = nn.Parameter(torch.ones(()))

        def trained_by(self, loss):
            return [{"params": [self.first if loss == "one" else self.second]}]

        def losses(self, batch):
            before = self.first.item(), self.second.item()
            yield "one", self.first.square()
            between = self.first.item(), self.second.item()
            yield "two", self.second.square() + 0.0 * self.first.detach()
            seen.append((before, between, (self.first.item(), self.second.item())))

    train(Alternating(), _rows(n=8), Schedule(1, 8, 0.1), _generator())
    ((before, between, after),) = seen
    assert between[0] < before[0]
    assert between[1] == before[1]
    assert after[0] == between[0]
    assert after[1] < between[1]


def test_alternating_steps_equal_two_torch_optimisers():
    """Alternating steps equal torch's own optimiser, one for each network."""

    class Pair(Objective):
        def __init__(self):
            super().__init__(_linear(1))
            self.other = _linear(2)

        def trained_by(self, loss):
            return [{"params": list((self.other if loss == "other" else self.network).parameters())}]

        def losses(self, batch):
            target = batch.observed.float()
            yield "other", (self.other(batch.features) - target).square().mean()
            with torch.no_grad():
                soft = torch.sigmoid(self.other(batch.features))
            yield "network", (self.network(batch.features) - soft).square().mean()

    rows, together, apart = _rows(), Pair(), Pair()
    train(together, rows, Schedule(3, 16, 0.01), _generator(5))

    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.0) for m in (apart.other, apart.network)]
    generator = _generator(5)
    for _ in range(3):
        order = rows.trainable[torch.randperm(64, generator=generator)]
        for index in order.split(16):
            batch = Batch(index, rows.gather(index), rows.observed[index])
            for optimizer, (_, loss) in zip(optimizers, apart.losses(batch), strict=True):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    for one, other in zip(together.parameters(), apart.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_best_epoch_is_restored():
    scores = iter([0.1, 0.9, 0.3, 0.2, 0.0])  # the last one is of the start
    snapshots = []

    def scorer(network):
        snapshots.append(network[0].weight.detach().clone())
        return next(scores)

    objective = LeastSquares(_linear())
    history = train(objective, _rows(), Schedule(4, 16, 0.01), _generator(), scorer=scorer)
    assert history.facts["best_epoch"] == 2
    assert torch.equal(objective.network[0].weight, snapshots[1])
    assert history["valid_average_precision"] == [0.1, 0.9, 0.3, 0.2]


def test_the_start_is_restored_if_no_epoch_is_better():
    scores = iter([0.1, 0.3, 0.9])
    objective = LeastSquares(_linear())
    start = objective.network[0].weight.detach().clone()
    schedule = Schedule(2, 16, 0.01)
    history = train(objective, _rows(), schedule, _generator(), scorer=lambda network: next(scores))
    assert (history.facts["best_epoch"], history.facts["best_average_precision"]) == (0, 0.9)
    assert torch.equal(objective.network[0].weight, start)


def test_an_objective_may_ask_for_the_best_network_so_far():
    """After the third epoch training goes on from the first one's network, and looks for the best epoch anew."""
    scores, seen = iter([0.9, 0.3, 0.2, 0.1, 0.05, 0.05, 0.05, 0.0]), []

    class Asking(LeastSquares):
        def begin_epoch(self, epoch):
            super().begin_epoch(epoch)
            seen.append(self.network[0].weight.detach().clone())

        def end_epoch(self, waited):
            return waited == 2 and self.epoch == 2

    history = train(
        Asking(_linear()),
        _rows(),
        Schedule(9, 16, 0.01, patience=3),
        _generator(),
        scorer=lambda network: next(scores),
    )
    assert torch.equal(seen[3], seen[1])  # as it was after the first epoch
    assert not torch.equal(seen[2], seen[1])
    assert (len(history), history.facts["stopped"], history.facts["best_epoch"]) == (7, "early", 4)


def test_smaller_is_better_metrics_choose_the_smallest():
    scores = iter([0.5, 0.2, 0.4, 0.6])
    history = train(
        LeastSquares(_linear()),
        _rows(),
        Schedule(3, 16, 0.01),
        _generator(),
        scorer=lambda network: next(scores),
        selection="ranking_loss",
    )
    assert history.facts["best_epoch"] == 2
    assert history.facts["best_ranking_loss"] == pytest.approx(0.2)


def test_patience_ends_training():
    scores = iter([0.5, 0.4, 0.4, 0.0])
    history = train(
        LeastSquares(_linear()),
        _rows(),
        Schedule(5, 16, 0.01, patience=2),
        _generator(),
        scorer=lambda network: next(scores),
    )
    assert len(history) == 3
    assert history.facts["stopped"] == "early"


def test_patience_counts_from_the_best_trained_epoch_and_waits_while_the_score_rises_again():
    scores = iter([0.5, 0.1, 0.2, 0.3, 0.4, 0.35, 0.9])
    schedule = Schedule(25, 16, 0.01, patience=2)
    history = train(LeastSquares(_linear()), _rows(), schedule, _generator(), scorer=lambda network: next(scores))
    # Two epochs after the first one it rises, until the sixth.
    assert (len(history), history.facts["stopped"], history.facts["best_epoch"]) == (6, "early", 0)


def test_an_average_of_the_weights_is_scored_and_kept():
    """The first step is taken over; later ones move the average by 9/(10 + steps), or more."""
    weights, scored = [], []

    class Step(Callback):
        def on_batch_end(self, done, total):
            weights.append(objective.network[0].weight.detach().clone())

    def scorer(network):
        scored.append(network[0].weight.detach().clone())
        return float(len(scored)) if len(scored) < 3 else 0.0  # the start is the third

    objective = LeastSquares(_linear())
    schedule = Schedule(2, 16, 0.01, average=10.0)
    train(objective, _rows(), schedule, _generator(), scorer=scorer, callbacks=[Step()])
    expected = weights[0]
    for n_before, weight in enumerate(weights[1:], start=1):
        expected = torch.lerp(expected, weight, max(9 / (10 + n_before), 1 - math.exp(-1 / 40)))
    assert torch.allclose(scored[1], expected)
    assert torch.equal(objective.network[0].weight, scored[1])
    assert not torch.equal(weights[-1], scored[1])


def test_equal_seeds_give_equal_bits_whatever_the_global_seed():
    results = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        objective = LeastSquares(MLP([3, 16, 2], dropout=0.5, generator=_generator(3)))
        objective.network[2].generator = _generator(4)
        train(objective, _rows(), Schedule(3, 16, 0.01), _generator(9))
        results.append(torch.cat([p.detach().ravel() for p in objective.parameters()]))
    assert torch.equal(*results)


def test_interrupt_keeps_a_usable_model():
    class Interrupt(Callback):
        def on_epoch_end(self, objective, record):
            if record["epoch"] == 2:
                raise KeyboardInterrupt

    objective = LeastSquares(_linear())
    with pytest.warns(TrainingWarning, match="interrupted"):
        history = train(objective, _rows(), Schedule(10, 16, 0.01), _generator(), callbacks=[Interrupt()])
    assert history.facts["stopped"] == "interrupted"
    assert len(history) == 2
    assert not objective.training


def test_divergence_restores_the_last_finite_epoch():
    class Diverging(LeastSquares):
        def losses(self, batch):
            for name, loss in super().losses(batch):
                yield name, loss * (math.inf if self.epoch == 2 else 1.0)

    objective = Diverging(_linear())
    with pytest.warns(TrainingWarning, match="finite in epoch 3"):
        history = train(objective, _rows(), Schedule(5, 16, 0.01), _generator())
    assert history.facts["stopped"] == "diverged"
    assert len(history) == 2
    assert all(torch.isfinite(p).all() for p in objective.parameters())


def test_a_callback_may_stop_training():
    class Stop(Callback):
        def on_epoch_end(self, objective, record):
            return record["epoch"] == 3

    history = train(LeastSquares(_linear()), _rows(), Schedule(10, 16, 0.01), _generator(), callbacks=[Stop()])
    assert (len(history), history.facts["stopped"]) == (3, "callback")


def test_untrainable_rows_do_not_matter():
    rows = _rows()
    objective = LeastSquares(_linear())
    part = TrainingRows(rows.features.clone(), rows.observed.clone(), torch.arange(32))
    part.features[32:] = math.nan
    history = train(objective, part, Schedule(2, 16, 0.01), _generator())
    assert math.isfinite(history[-1]["loss"])


def test_groups_may_have_their_own_learning_rate_and_decay_matches_torch():
    class Grouped(LeastSquares):
        def __init__(self):
            super().__init__(MLP([3, 4, 2], generator=_generator(1)))

        def trained_by(self, loss):
            first, second = (list(self.network[place].parameters()) for place in (0, 2))
            return [{"params": first, "weight_decay": 0.0}, {"params": second, "lr": 10.0}]

    rows, ours, theirs = _rows(), Grouped(), Grouped()
    train(ours, rows, Schedule(2, 64, 0.01, weight_decay=0.1), _generator())
    groups = [group | {"lr": 0.01 * group.get("lr", 1.0)} for group in theirs.trained_by("")]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.1)
    for _ in range(2):
        batch = Batch(rows.trainable, rows.features, rows.observed)
        ((_, loss),) = theirs.losses(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_weight_decay_is_decoupled_from_the_loss_scale():
    """With no gradient at all, each step shrinks the weights by (1 − lr·decay), whatever the loss is multiplied by."""

    class Flat(Objective):
        def losses(self, batch):
            yield "flat", 0.0 * self.network(batch.features).sum()

    objective = Flat(_linear())
    start = objective.network[0].weight.detach().clone()
    train(objective, _rows(), Schedule(1, 16, 0.1, weight_decay=0.5), _generator())
    assert torch.allclose(objective.network[0].weight, start * (1 - 0.1 * 0.5) ** 4, atol=1e-6)


def test_dropout_is_inverted_and_off_at_prediction():
    layer = Dropout(0.25, _generator())
    values = torch.ones(100_000)
    dropped = layer.train()(values)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    # Five standard errors of a Bernoulli mean scaled by 1/0.75.
    assert abs(dropped.mean().item() - 1.0) < 5 * math.sqrt(0.25 * 0.75 / 100_000) / 0.75
    assert torch.equal(layer.eval()(values), values)


def test_input_dropout_drops_features_and_keeps_the_mean_of_a_linear_network():
    network = MLP([4, 2], input_dropout=0.25, generator=_generator())
    features = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
    expected = network.eval()(features)
    linear = network[1]
    assert torch.equal(expected, features @ linear.weight.T + linear.bias)
    drawn = network.train()(features.expand(40_000, -1))
    # Var of a logit: Σ_j (w_j x_j)² p/(1 − p); five standard errors of the mean.
    deviation = ((linear.weight * features) ** 2).sum(dim=1).mul(0.25 / 0.75).sqrt()
    assert ((drawn.mean(dim=0) - expected[0]).abs() < 5 * deviation / 200).all()
    assert torch.allclose(drawn.std(dim=0), deviation, rtol=0.05)


def test_history_reads_as_records_columns_and_frame():
    history = History([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0}], {"stopped": "early"})
    assert history["loss"] == [2.0, 1.0]
    assert history[-1] == {"epoch": 2, "loss": 1.0}
    assert list(history.to_frame().columns) == ["epoch", "loss"]
    assert "2 epochs" in repr(history)


def test_threads_are_limited_for_small_steps_and_put_back():
    before = torch.get_num_threads()
    assert useful_threads(16, 1_000) == 1
    assert useful_threads(4096, 10_000_000) == before
    assert (useful_threads(100, 10_000_000), useful_threads(100, 10_000_000, own=True)) == (1, before)
    with pytest.raises(RuntimeError), limited_threads(1):  # noqa: PT012 - the body is the test
        assert torch.get_num_threads() == 1
        raise RuntimeError
    assert torch.get_num_threads() == before


class _Clock:
    """A clock that each batch moves on by one second."""

    now = 0.0

    def monotonic(self):
        return self.now

    def perf_counter(self):
        return self.now


class _TimedSquares(LeastSquares):
    clock: _Clock

    def losses(self, batch):
        yield from super().losses(batch)
        self.clock.now += 1.0


def _timed_run(monkeypatch, seconds, **options):
    clock, told = _Clock(), []
    monkeypatch.setattr(context, "time", clock)
    objective = _TimedSquares(_linear())
    objective.clock = clock
    start = {name: value.clone() for name, value in objective.state_dict().items()}
    with context.deadline(seconds), context.progress_to(lambda step, share: told.append(share)):
        history = train(objective, _rows(), Schedule(3, 16, 0.1), _generator(), **options)  # four batches per epoch
    return objective, start, history, told


def test_a_time_limit_ends_an_epoch_early(monkeypatch):
    """Six batches: the second epoch has half of its rows, and is scored like the first."""
    scores = iter([0.1, 0.2, 0.0])
    _, _, history, told = _timed_run(monkeypatch, 6.0, scorer=lambda network: next(scores))
    assert history.facts["stopped"] == "time"
    assert [record["valid_average_precision"] for record in history] == [0.1, 0.2]
    assert history.facts["best_epoch"] == 2
    assert np.allclose(told, np.arange(1, 7) / 12)


def test_the_weights_of_a_limited_run_are_those_of_the_batches_it_had(monkeypatch):
    """An epoch that time ends after two batches moves the weights as far as the first two batches do."""
    seen = []

    class Weights(Callback):
        def on_train_begin(self, objective, max_epochs):
            self.objective = objective

        def on_batch_end(self, done, total):
            seen.append(self.objective.network[0].weight.detach().clone())

    _timed_run(monkeypatch, math.inf, callbacks=[Weights()])
    limited, _, history, _ = _timed_run(monkeypatch, 2.0)
    assert len(history) == 1
    assert torch.equal(limited.network[0].weight, seen[1])


def test_no_time_at_all_leaves_the_start(monkeypatch):
    objective, start, history, told = _timed_run(monkeypatch, 0.0)
    assert (len(history), history.facts["stopped"], told) == (0, "time", [])
    assert all(torch.equal(value, start[name]) for name, value in objective.state_dict().items())


def test_stages_of_work_share_progress_and_time(monkeypatch):
    clock, told = _Clock(), []
    monkeypatch.setattr(context, "time", clock)
    with context.deadline(10.0), context.progress_to(lambda step, share: told.append(share)):
        with context.stage(0.0, 0.25, time_share=0.5):
            context.tell(1.0)
            assert context.time_left() == 5.0
        with context.stage(0.25, 1.0):
            context.tell(0.5)
            assert context.time_left() == 10.0
    assert told == [0.25, 0.625]


def test_the_longest_prefix_gives_the_rate_factor_and_frozen_parameters_go():
    network = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1))
    factors = {"0": 0.1, "1": 0.5, "1.bias": 0.0}
    groups = with_rate_factors([{"params": list(network.parameters())}], network, factors)
    assert [(len(group["params"]), group["lr"]) for group in groups] == [(1, 0.1), (1, 0.5)]

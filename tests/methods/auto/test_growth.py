"""Auto on many rows: a sample first, then more rows for the candidates that gain from them."""

import time

import numpy as np
import pytest

import onepos
from onepos._utils.context import deadline
from onepos.datasets import make_known_posterior
from onepos.exceptions import TrainingWarning
from onepos.methods.auto import judging, search
from onepos.methods.auto.budget import affordable
from onepos.methods.auto.candidates import Candidate, Shape, first_candidates
from onepos.methods.auto.search import _has_learnt

ROWS = 2000


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(ROWS, 6, 5, random_state=0)


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch):
    monkeypatch.setattr(judging, "MANY_ROWS", 1000)
    monkeypatch.setattr(judging, "_HELD", 400)
    monkeypatch.setattr(search, "SAMPLE", 300)
    monkeypatch.setattr(search, "_LEAST_SAMPLE", 100)
    monkeypatch.setattr(search, "MOST_ROWS", {**search.MOST_ROWS, "forest": 700})


def fit(data, *methods, time_budget=None, **params):
    model = onepos.AutoClassifier(methods=methods, time_budget=time_budget, random_state=0, **params)
    return model.fit(data.X, data.observed)


def test_candidates_grow_to_as_many_rows_as_their_kind_takes(data):
    model = fit(data, "frequency", "logistic", "forest", "softmax")
    tried = {(one["method"], one["rows"]) for one in model.history_}
    assert {("logistic", 300), ("softmax", 300), ("forest", 300)} < tried
    assert {("logistic", 1600), ("softmax", 1600)} < tried
    assert ("frequency", 1600) not in tried
    assert max(rows for key, rows in tried if key == "forest") <= 700
    assert model.comparison_["rows"] == 400
    assert "not_finished" not in model.history_.facts


def test_a_larger_self_replaces_the_smaller_one_only_if_it_is_better(data):
    history = fit(data, "frequency", "logistic", "softmax").history_.to_frame()
    for _, one in history.groupby("method"):
        assert (one["weight"] > 0).sum() <= 1
        weighed = one[one["weight"] > 0]
        assert (weighed["log_likelihood"] == one["log_likelihood"].max()).all()


def test_more_rows_rank_better_than_the_sample(data):
    grown = fit(data, "logistic")
    sample = onepos.LogisticClassifier(random_state=0).fit(data.X[:300], data.observed[:300])
    assert grown.score(data.X, data.Y) > sample.score(data.X, data.Y)


def test_equal_seeds_give_equal_models_without_a_time_limit(data):
    first, second = (fit(data, "frequency", "logistic", "softmax") for _ in range(2))
    np.testing.assert_array_equal(first.decision_function(data.X), second.decision_function(data.X))


def test_complete_labels_judge_alone(data):
    model = onepos.AutoClassifier(methods=("frequency", "logistic"), time_budget=None, random_state=0)
    given = (data.X[:100], data.Y[:100])
    model.fit(data.X[100:], data.observed[100:], validation=given, validation_labels="full")
    assert max(model.history_["rows"]) == 1900
    assert model.comparison_["rows"] == 100


def test_a_budget_is_used_for_variants_of_networks_on_all_rows(data):
    model = fit(data, "frequency", "softmax", time_budget=6000.0, n_members=3)
    assert sorted(model.history_["rows"])[-2:] == [1600, 1600]
    assert model.history_.facts["stopped"] == "n_members"


def test_the_order_begins_with_every_label_and_leaves_out_the_rows_that_judge():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1500, 2))
    Y = np.eye(30, dtype=np.int8)[np.minimum(generator.geometric(0.3, 1500), 30) - 1]
    folds = judging.deal(X, Y, None, generator, complete=False, n_folds=None, fraction=0.1)
    sample, held = folds.first(40).parts[0]
    assert (folds.observed[sample].any(axis=0) == Y.any(axis=0)).all()
    assert len(sample) == 40
    assert len(held) == 400
    assert sorted([*folds.order, *held]) == list(range(1500))


def test_what_had_no_time_has_not_learnt(data):
    X, Y = data.X[:300], data.observed[:300]
    logistic, forest = onepos.LogisticClassifier().fit(X, Y), onepos.ForestClassifier(n_trees=5).fit(X, Y)
    network = onepos.SoftmaxClassifier(max_epochs=2).fit(X, Y, validation=(X, Y))
    assert all(map(_has_learnt, (logistic, forest, network)))
    with deadline(time.monotonic() - 1):
        assert not _has_learnt(logistic)
        assert _has_learnt(forest)
        assert _has_learnt(network)
        network.history_.facts["best_epoch"] = 0
        assert not _has_learnt(network)


def test_a_candidate_out_of_time_is_dropped_and_not_compared(data, monkeypatch):
    learnt = search._has_learnt
    monkeypatch.setattr(search, "_has_learnt", lambda m: learnt(m) and not isinstance(m, onepos.LogisticClassifier))
    model = fit(data, "frequency", "logistic", "softmax")
    assert model.history_.facts["not_finished"] == ["logistic"]
    assert "logistic" not in model.history_["method"]
    assert "logistic" not in model.comparison_["methods"]


def test_without_time_the_features_are_not_blamed(data, monkeypatch):
    monkeypatch.setattr(search, "_has_learnt", lambda m: isinstance(m, onepos.FrequencyClassifier))
    with pytest.warns(TrainingWarning, match="time was too short for logistic to learn from 2,000 rows") as warned:
        model = fit(data, "frequency", "logistic", time_budget=6000.0)
    assert len(warned) == 1
    assert model.history_.facts["converged"] is False


def contender(key, number, ranks, weight):
    """A candidate of some weight that gives the observed label, the first of five, such a rank in each row."""
    scores = np.zeros((len(ranks), 5), dtype=np.float32)
    scores[:, 1:] = np.arange(2, 10, 2)[None]
    scores[:, 0] = 11 - 2 * np.asarray(ranks)
    return judging.Contender(Candidate(key, {}), number, scores=[scores], weight=weight)


def test_members_without_which_the_pool_ranks_as_well_have_no_weight():
    observed = np.eye(5, dtype=np.int8)[np.zeros(4000, dtype=int)]
    odd = np.arange(4000) % 2
    good, bad, other = np.where(odd, 1, 4), np.full(4000, 5), np.where(odd, 4, 1)
    for key, ranks, kept in (("frequency", bad, False), ("forest", good, False), ("softmax", other, True)):
        pooled = [contender("logistic", 0, good, 0.6), contender(key, 1, ranks, 0.4)]
        judging.prune(pooled, observed, 1, 2.0)
        assert (pooled[1].weight > 0) == kept
        assert sum(one.weight for one in pooled) == pytest.approx(1.0)


def test_a_slow_member_must_be_worth_its_time():
    observed = np.eye(5, dtype=np.int8)[np.zeros(4000, dtype=int)]
    good = np.where(np.arange(4000) % 1000, 1, 4)
    for key in ("softmax", "kernel"):
        pooled = [contender("logistic", 0, good, 0.6), contender(key, 1, np.ones(4000, dtype=int), 0.4)]
        judging.prune(pooled, observed, 1, 1.0)
        assert (pooled[1].weight > 0) == (key == "softmax")


def test_what_would_not_fit_into_memory_is_left_out():
    few, many = (Shape(20_000, 9, n_labels, is_sparse=True, is_bag=True) for n_labels in (1000, 10_000))
    for key in ("logistic", "forest", "smile"):
        assert affordable(Candidate(key, {}), few, np.inf, 1.0) is not None
        assert affordable(Candidate(key, {}), many, np.inf, 1.0) is None
    assert affordable(Candidate("centroid", {}), many, np.inf, 1.0) is not None


def test_large_tables_have_large_batches_and_few_epochs():
    def settings(n_rows):
        shape = Shape(n_rows, 9, 5, is_sparse=False, is_bag=False)
        return first_candidates(("capped",), shape, "auto", None)[0][0].settings

    assert [settings(n)["batch_size"] for n in (20_000, 30_000, 200_000, 10**6)] == [64, 256, 1024, 4096]
    assert [settings(n)["max_epochs"] for n in (30_000, 144_000, 10**7)] == [40, 20, 4]

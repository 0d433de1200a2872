"""Auto: what it tries, when it stops, how it pools, what it tells."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import expit

import onepos
from onepos._utils.context import time_left
from onepos.datasets import make_known_posterior
from onepos.exceptions import TrainingWarning
from onepos.methods.auto import budget as _budget
from onepos.methods.auto import search as _auto_search
from onepos.methods.auto.budget import landmarks_for
from onepos.methods.auto.candidates import KINDS, Shape, first_candidates, more_candidates
from onepos.methods.auto.search import round_weights
from onepos.methods.forest import ForestClassifier
from onepos.methods.logistic import LogisticClassifier
from onepos.metrics import average_precision

QUICK = {"time_budget": None, "random_state": 0, "n_folds": 3}
DENSE = Shape(1000, 9, 5, is_sparse=False, is_bag=False)
BAG = Shape(1000, 9, 5, is_sparse=True, is_bag=True)


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(900, 6, 5, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    model = onepos.AutoClassifier(methods=("frequency", "logistic", "forest", "kernel", "wan"), **QUICK)
    return model.fit(data.X[:500], data.observed[:500])


def test_says_what_it_tried_and_why(fitted):
    history = fitted.history_
    assert history["method"] == ["frequency", "logistic", "forest", "kernel", "wan", "forest"]
    assert history.facts["stopped"] == "methods"
    assert history.facts["folds"] == 3
    assert "495 rows" in history.facts["judged_by"]  # one row of each of the five labels is never held out
    frame = history.to_frame()
    assert (frame["log_likelihood"] < 0).all()
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert len(fitted.members_) == len(fitted.weights_) == len(fitted.sharpness_) == len(fitted.links_)


def test_networks_keep_the_models_of_their_folds_and_other_kinds_have_one(fitted):
    kept = fitted.history_.to_frame().query("weight > 0")["method"]
    names = [type(member).__name__ for member in fitted.members_]
    assert names.count("AssumeNegativeClassifier") == 3 * ("wan" in set(kept))
    for key, name in (
        ("logistic", "LogisticClassifier"),
        ("forest", "ForestClassifier"),
        ("kernel", "KernelClassifier"),
    ):
        assert names.count(name) == (key in set(kept))


def test_networks_are_stored_with_16_bits_per_weight_and_nothing_is_lost(data, tmp_path):
    model = onepos.AutoClassifier(methods=("softmax",), **QUICK).fit(data.X[:500], data.observed[:500])
    layers = [weights for member in model.members_ for weights in member.network_.weights]
    assert {weights.dtype for weights in layers} == {np.dtype(np.float16)}
    n_weights = sum(weights.numel() for member in model.members_ for weights in member.network_.parameters())
    assert model.save(tmp_path / "m.onepos").stat().st_size < 2 * n_weights + 50_000
    found = onepos.load(tmp_path / "m.onepos").decision_function(data.X[500:])
    assert np.array_equal(found, model.decision_function(data.X[500:]))


def test_networks_of_further_folds_are_not_trained_if_the_file_would_be_large(data, monkeypatch):
    settings = {"methods": ("frequency", "softmax"), **QUICK}
    n_weights = 6 * 128 + 128 + 128 * 5 + 5
    monkeypatch.setattr(_auto_search, "_MOST_WEIGHTS", 2 * n_weights)
    model = onepos.AutoClassifier(**settings).fit(data.X[:500], data.observed[:500])
    assert model.history_.facts["stopped"] == "model_size"
    assert model.history_["folds"][1] == 2
    assert model.history_.facts["folds"] == 2
    assert [type(member).__name__ for member in model.members_].count("SoftmaxClassifier") == 2


def test_weights_beyond_16_bits_stay():
    network = torch.nn.Linear(2, 1)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[1.0 + 2**-14, 1e6]]))
    round_weights(network)
    assert network.weight.tolist() == [[1.0, 1e6]]


def test_the_pool_is_at_least_as_likely_as_its_best_member(fitted):
    compared = {key: one["log_likelihood"] for key, one in fitted.comparison_["methods"].items()}
    assert fitted.comparison_["rows"] == 495
    assert {"auto", "frequency", "logistic"} <= set(compared)  # others may be dropped after a fold
    assert compared["auto"] >= max(compared.values()) - 1e-12
    assert fitted.history_.facts["beats_frequency"]


def test_ranks_at_least_as_well_as_its_members_do_on_the_mean(fitted, data):
    """On a simulation whose truth is known, rows that no member saw."""
    X, Y = data.X[500:], data.Y[500:]
    members = [average_precision(Y, member.decision_function(X)) for member in fitted.members_]
    assert average_precision(Y, fitted.predict_proba(X)) > np.mean(members)


def test_probabilities_add_up_to_the_assumed_number(fitted, data):
    np.testing.assert_allclose(fitted.predict_proba(data.X).sum(axis=1), 2.0, rtol=1e-9)
    assert fitted.n_positives_from_ == "default"


@pytest.mark.parametrize("n_positives", [1.5, 2.5])
def test_sets_of_new_rows_have_the_wanted_size_and_none_is_empty(data, n_positives):
    model = onepos.AutoClassifier(methods=("logistic", "kernel"), n_positives=n_positives, **QUICK)
    sizes = model.fit(data.X[:500], data.observed[:500]).predict(data.X[500:]).sum(axis=1)
    assert sizes.mean() == pytest.approx(n_positives, rel=0.1)
    assert sizes.min() >= 1


def test_an_absurd_budget_still_gives_the_baselines(data):
    model = onepos.AutoClassifier(time_budget=1e-6, random_state=0).fit(data.X, data.observed)
    assert model.history_["method"] == ["frequency", "logistic"]
    assert model.history_.facts["stopped"] == "time_budget"
    assert (model.predict(data.X).sum(axis=1) >= 1).all()


def test_every_candidate_works_under_the_limit_of_the_budget(data, monkeypatch):
    """Each piece of work sees a limit within the budget; without a budget there is none."""
    seen = []
    fit = LogisticClassifier.fit
    monkeypatch.setattr(LogisticClassifier, "fit", lambda *a, **k: seen.append(time_left()) or fit(*a, **k))
    model = onepos.AutoClassifier(methods=("frequency", "logistic"), time_budget=5000.0, n_folds=2, random_state=0)
    model.fit(data.X[:200], data.observed[:200])
    assert len(seen) == 3  # two folds, all rows
    assert max(seen) <= 5000.0
    seen.clear()
    model.set_params(time_budget=None).fit(data.X[:200], data.observed[:200])
    assert seen == [math.inf] * 3


def test_no_relation_between_features_and_labels_is_said():
    generator = np.random.default_rng(0)
    observed = np.eye(5, dtype=int)[generator.integers(5, size=300)]
    model = onepos.AutoClassifier(methods=("frequency", "logistic"), **QUICK)
    with pytest.warns(TrainingWarning, match="no better than ranking labels by their frequency"):
        model.fit(generator.normal(size=(300, 4)), observed)
    assert not model.history_.facts["beats_frequency"]


def test_few_rows_are_not_held_out_and_members_count_alike(data):
    model = onepos.AutoClassifier(**QUICK).fit(data.X[:30], data.observed[:30])
    assert model.history_["method"] == ["logistic", "forest", "forest"]
    assert model.history_["weight"] == [1 / 3, 1 / 3, 1 / 3]
    assert "too few rows" in model.history_.facts["judged_by"]
    assert model.comparison_ == {}


def test_full_validation_labels_judge_alone_and_give_the_number_of_positives(data):
    model = onepos.AutoClassifier(methods=("frequency", "logistic"), **QUICK)
    model.fit(
        data.X[:300], data.observed[:300], validation=(data.X[300:400], data.Y[300:400]), validation_labels="full"
    )
    counts = data.Y[300:400].sum(axis=1)
    assert model.n_positives_ == pytest.approx(counts[counts > 0].mean())
    assert model.comparison_["rows"] == 100
    assert expit(model.decision_function(data.X)).sum(axis=1) == pytest.approx(model.n_positives_)


def test_single_validation_labels_are_learnt_from(data):
    both = onepos.AutoClassifier(methods=("logistic",), **QUICK).fit(data.X[:400], data.observed[:400])
    split = onepos.AutoClassifier(methods=("logistic",), **QUICK)
    split.fit(data.X[:300], data.observed[:300], validation=(data.X[300:400], data.observed[300:400]))
    np.testing.assert_array_equal(both.decision_function(data.X), split.decision_function(data.X))


def test_unknown_methods_are_named(data):
    with pytest.raises(ValueError, match="methods must name some of auto, frequency"):
        onepos.AutoClassifier(methods=("lineal",)).fit(data.X, data.observed)


def test_ctrl_c_leaves_a_model_of_what_was_trained(data, monkeypatch):
    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(ForestClassifier, "fit", interrupted)
    model = onepos.AutoClassifier(methods=("frequency", "logistic", "forest"), **QUICK)
    with pytest.warns(TrainingWarning, match="interrupted"):
        model.fit(data.X[:200], data.observed[:200])
    assert model.history_["method"] == ["frequency", "logistic"]
    assert model.history_.facts["stopped"] == "interrupted"
    assert model.predict_proba(data.X).shape == (900, 5)


@pytest.mark.parametrize(("seconds_per_batch", "given_up"), [(0.1, False), (1.0, True)])
def test_a_network_is_given_up_if_a_taste_of_an_epoch_is_too_slow(monkeypatch, seconds_per_batch, given_up):
    """Three epochs of ten batches in 20 seconds."""
    now = [0.0]
    monkeypatch.setattr(_budget.time, "monotonic", lambda: now[0])
    pace = _budget.Pace(end=20.0)
    pace.on_train_begin(None, 30)
    with pytest.raises(_budget.TooSlow) if given_up else nullcontext():
        for batch in range(10):
            now[0] += seconds_per_batch
            pace.on_batch_end(batch + 1, 10)


def test_one_network_has_the_rest_of_the_time_if_all_were_given_up(data, monkeypatch):
    def too_slow(*_):
        raise _budget.TooSlow

    monkeypatch.setattr(_budget.Pace, "on_train_begin", too_slow)
    model = onepos.AutoClassifier(methods=("frequency", "capped", "wan"), time_budget=6000.0, random_state=0)
    model.fit(data.X[:200], data.observed[:200])
    assert model.history_["method"] == ["frequency", "capped"]


def test_with_one_fold_variants_have_the_time_that_round_one_left(data, monkeypatch):
    """Round one has three quarters of the budget; candidates that were left out then do not end the search."""
    first_round = _auto_search.first_round

    def out_of_time(search, *candidates):
        first_round(search, *candidates)
        search.stopped = "time_budget"

    monkeypatch.setattr(_auto_search, "first_round", out_of_time)
    model = onepos.AutoClassifier(methods=("frequency", "capped"), time_budget=6000.0, n_folds=1, n_members=3)
    model.set_params(random_state=0).fit(data.X[:200], data.observed[:200])
    assert model.history_["method"] == ["frequency", "capped", "capped"]
    assert model.history_.facts["stopped"] == "n_members"


def test_kinds_come_in_the_order_that_suits_the_features():
    def order(keys, shape):
        return [[one.key for one in part] for part in first_candidates(keys, shape, "auto", None)]

    first, later = order(tuple(KINDS), DENSE)
    assert first[:4] == ["frequency", "logistic", "forest", "kernel"]
    assert "smile" in later
    first, later = order(tuple(KINDS), BAG)
    assert first[:4] == ["frequency", "centroid", "logistic", "capped"]
    assert {"forest", "kernel"} <= set(later)
    assert order(("an",), BAG) == [["an"], []]
    assert order(("forest", "kernel"), BAG) == [["forest", "kernel"], []]


def test_variants_of_networks_differ():
    pool = more_candidates(("wan", "softmax"), DENSE, "auto", None)
    first = [next(pool) for _ in range(4)]
    assert len({(*map(str, sorted(one.settings.items())), one.key) for one in first}) == 4
    assert not list(more_candidates(("forest",), DENSE, "auto", None))


def test_a_kernel_gets_the_landmarks_that_the_time_allows():
    assert landmarks_for(DENSE, math.inf, 1.0) == 1000
    large = Shape(100_000, 50, 20, is_sparse=False, is_bag=False)
    assert 200 <= landmarks_for(large, 20.0, 1e10) < landmarks_for(large, 200.0, 1e10) <= 2000
    assert landmarks_for(large, 20.0, 1e10) == landmarks_for(large, 200.0, 1e9)
    assert landmarks_for(large, 0.1, 1e10) == 0


def test_shapes_follow_the_features():
    counts = sparse.random_array((50, 20), density=0.1, format="csr", random_state=0)
    assert Shape.of(counts, 3) == Shape(50, 20, 3, is_sparse=True, is_bag=True)
    assert Shape.of(counts.toarray(), 3) == Shape(50, 20, 3, is_sparse=False, is_bag=True)
    assert not Shape.of(np.ones((4, 3)), 3).is_bag

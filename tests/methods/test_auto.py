"""Auto: what it tries, when it stops, how it combines, what it tells."""

from itertools import islice

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

import onepos
from onepos.datasets import make_known_posterior
from onepos.methods import auto
from onepos.methods._auto_portfolio import candidates, settings_for
from onepos.metrics import average_precision

DENSE = settings_for(np.ones((2, 2)), "auto")
QUICK = {"time_budget": None, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(900, 6, 5, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    model = onepos.AutoClassifier(methods=("linear", "mlml", "softmax", "wan"), n_members=5, **QUICK)
    return model.fit(data.X[:500], data.observed[:500])


def test_says_what_it_tried_and_why(fitted):
    history = fitted.history_
    assert history["method"] == ["linear", "mlml", "wan", "softmax", "wan"]
    assert history.facts["stopped"] == "n_members"
    assert "50 rows" in history.facts["judged_by"]
    frame = history.to_frame()
    assert (frame["log_likelihood"] < 0).all()
    assert frame["weight"].gt(0).sum() == len(fitted.members_) == len(fitted.weights_)


def test_ranks_at_least_as_well_as_its_members_do_on_the_mean(fitted, data):
    """On a simulation whose truth is known, rows that no member saw."""
    X, Y = data.X[500:], data.Y[500:]
    members = [average_precision(Y, member.decision_function(X)) for member in fitted.members_]
    assert average_precision(Y, fitted.predict_proba(X)) > np.mean(members)


def test_probabilities_add_up_to_the_assumed_number(fitted, data):
    np.testing.assert_allclose(fitted.predict_proba(data.X).sum(axis=1), 2.0, rtol=1e-9)
    assert fitted.history_.facts["n_positives_from"] == "default"


def test_without_combining_one_member_is_kept(data):
    model = onepos.AutoClassifier(methods=("linear", "mlml"), combine=False, **QUICK)
    model.fit(data.X[:500], data.observed[:500])
    frame = model.history_.to_frame()
    assert len(model.members_) == 1
    assert frame["weight"].idxmax() == frame["log_likelihood"].idxmax()
    member = model.members_[0].decision_function(data.X)
    np.testing.assert_array_equal(np.argsort(model.decision_function(data.X), axis=1), np.argsort(member, axis=1))


def test_time_that_is_over_ends_it(data, monkeypatch):
    clock = iter(range(0, 10_000, 7))
    monkeypatch.setattr(auto.time, "monotonic", lambda: float(next(clock)))
    model = onepos.AutoClassifier(methods=("linear", "mlml", "wan"), time_budget=10.0, random_state=0)
    model.fit(data.X[:200], data.observed[:200])
    assert model.history_.facts["stopped"] == "time_budget"
    assert len(model.history_) == 1


def test_a_network_ends_with_the_epoch_in_which_the_time_is_over(data, monkeypatch):
    now = [0.0]

    def tick():
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(auto.time, "monotonic", tick)
    model = onepos.AutoClassifier(methods=("wan",), time_budget=6.0, random_state=0)
    model.fit(data.X[:200], data.observed[:200])
    epochs = len(model.members_[0].history_)
    assert 1 <= epochs < 10
    assert model.members_[0].history_.facts["stopped"] == "callback"


def test_few_rows_are_not_held_out_and_members_count_alike(data):
    model = onepos.AutoClassifier(methods=("linear", "mlml"), **QUICK).fit(data.X[:30], data.observed[:30])
    assert model.history_["weight"] == [0.5, 0.5]
    assert "too few rows" in model.history_.facts["judged_by"]


def test_full_validation_labels_give_the_number_of_positives(data):
    model = onepos.AutoClassifier(methods=("linear",), **QUICK)
    model.fit(
        data.X[:300], data.observed[:300], validation=(data.X[300:400], data.Y[300:400]), validation_labels="full"
    )
    counts = data.Y[300:400].sum(axis=1)
    assert model.n_positives_ == pytest.approx(counts[counts > 0].mean())
    assert expit(model.decision_function(data.X)).sum(axis=1) == pytest.approx(model.n_positives_)


def test_unknown_methods_and_too_large_ones_are_named(data):
    with pytest.raises(ValueError, match="methods must name some of frequency"):
        onepos.AutoClassifier(methods=("lineal",)).fit(data.X, data.observed)


def test_no_row_to_spare_leaves_the_methods_that_choose_out(data):
    X, Y = data.X[:5], np.eye(5)
    model = onepos.AutoClassifier(methods=("frequency", "linear", "softmax"), n_members=2, **QUICK).fit(X, Y)
    assert model.history_["method"] == ["frequency", "softmax"]
    with pytest.raises(ValueError, match=r"fits 5 rows with 5 labels.*such as wan"):
        onepos.AutoClassifier(methods=("linear",), **QUICK).fit(X, Y)


def test_large_sets_have_no_slow_members():
    small = [c.key for c in candidates(("linear", "mlml", "d2ml"), (1000, 9, 5), **DENSE)]
    assert small == ["linear", "mlml", "d2ml"]
    assert not list(candidates(("mlml", "d2ml"), (50_000, 9, 5), **DENSE))


def test_rounds_of_networks_differ():
    pool = candidates(("wan", "softmax"), (1000, 9, 5), **DENSE)
    first = [next(pool) for _ in range(8)]
    assert len({(*sorted(c.settings.items()), c.key) for c in first}) == 8


def test_settings_follow_the_features():
    counts = sparse.random_array((50, 20), density=0.1, format="csr", random_state=0)
    assert settings_for(counts, "auto") == {"scales": ("none",), "bags": True}
    assert settings_for(counts.toarray(), "auto") == {"scales": ("standard", "minmax"), "bags": True}
    assert settings_for(np.ones((4, 3)), "none") == {"scales": ("none",), "bags": False}


def test_only_bags_have_features_dropped_and_smile_has_one_turn_unless_alone():
    shape = (1000, 9, 5)
    for bags in (False, True):
        pool = list(islice(candidates(("wan", "smile", "an"), shape, scales=("none",), bags=bags), 7))
        assert [c.key for c in pool] == ["wan", "smile", "an", "wan", "an", "wan", "an"]
        assert [c.settings.get("input_dropout", 0.0) > 0 for c in pool] == [bags and c.key != "smile" for c in pool]
    alone = list(islice(candidates(("smile",), shape, scales=("none",), bags=True), 3))
    assert [c.key for c in alone] == ["smile"] * 3
    assert not list(candidates(("smile",), (20_000, 9, 1000), scales=("none",), bags=True))

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
    assert history.facts["folds"] == 5
    assert "495 rows" in history.facts["judged_by"]  # one row of each of the five labels is never held out
    frame = history.to_frame()
    assert (frame["log_likelihood"] < 0).all()
    assert 5 * frame["weight"].gt(0).sum() == len(fitted.members_) == len(fitted.weights_)
    assert fitted.weights_.sum() == pytest.approx(1.0)
    # A candidate's models share its weight.
    np.testing.assert_allclose(fitted.weights_[::5] * 5, frame["weight"][frame["weight"] > 0])


def test_ranks_at_least_as_well_as_its_members_do_on_the_mean(fitted, data):
    """On a simulation whose truth is known, rows that no member saw."""
    X, Y = data.X[500:], data.Y[500:]
    members = [average_precision(Y, member.decision_function(X)) for member in fitted.members_]
    assert average_precision(Y, fitted.predict_proba(X)) > np.mean(members)


def test_probabilities_add_up_to_the_assumed_number(fitted, data):
    np.testing.assert_allclose(fitted.predict_proba(data.X).sum(axis=1), 2.0, rtol=1e-9)
    assert fitted.history_.facts["n_positives_from"] == "default"


def test_without_combining_one_member_is_kept(data):
    model = onepos.AutoClassifier(methods=("linear", "mlml"), combine=False, n_folds=1, **QUICK)
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
    assert small == ["linear", "mlml", "d2ml", "d2ml"]  # a kernel for each scaling
    assert not list(candidates(("mlml", "d2ml"), (50_000, 9, 5), **DENSE))


def test_bags_have_no_kernel_unless_nothing_else_is_wanted():
    bags = {"scales": ("none",), "bags": True}
    assert [c.key for c in candidates(("linear", "d2ml"), (1000, 9, 5), **bags)] == ["linear"]
    assert [c.key for c in candidates(("d2ml",), (1000, 9, 5), **bags)] == ["d2ml"]


def test_few_judging_rows_for_a_label_choose_epochs_by_likelihood():
    for n_judging, chooser in ((49, "observed_likelihood"), (50, None), (0, None)):
        first = next(candidates(("wan",), (1000, 9, 5), n_judging=n_judging, **DENSE))
        assert first.settings.get("selection_metric") == chooser


def test_a_candidate_that_the_time_does_not_suffice_for_does_not_count(data, monkeypatch):
    """The clock stands still during the first candidate and strikes in the middle of the second."""
    calls = iter(range(10_000))
    fits = []
    monkeypatch.setattr(auto.time, "monotonic", lambda: 0.0 if len(fits) < 7 else float(next(calls)) + 100.0)
    build = auto.Candidate.build
    monkeypatch.setattr(auto.Candidate, "build", lambda self, seed: fits.append(self.key) or build(self, seed))
    model = onepos.AutoClassifier(methods=("linear", "mlml"), time_budget=10.0, random_state=0)
    model.fit(data.X[:200], data.observed[:200])
    assert fits == ["linear"] * 5 + ["mlml"] * 2
    assert model.history_["method"] == ["linear"]
    assert model.history_.facts["stopped"] == "time_budget"


def test_interrupted_candidates_do_not_count_unless_there_is_no_other(data, monkeypatch):
    interrupted = {"linear": False, "mlml": True}
    for keys, kept in ((("linear", "mlml"), ["LinearClassifier"] * 5), (("mlml",), ["MLMLClassifier"])):
        monkeypatch.setattr(auto, "_was_interrupted", lambda model: interrupted[type(model).__name__[:4].lower()])
        monkeypatch.setitem(interrupted, "line", False)
        model = onepos.AutoClassifier(methods=keys, **QUICK).fit(data.X[:200], data.observed[:200])
        assert [type(member).__name__ for member in model.members_] == kept
        assert model.history_.facts["stopped"] == "interrupted"


def test_rounds_of_networks_differ():
    pool = candidates(("wan", "softmax"), (1000, 9, 5), **DENSE)
    first = [next(pool) for _ in range(8)]
    assert len({(*sorted(c.settings.items()), c.key) for c in first}) == 8


def test_settings_follow_the_features():
    counts = sparse.random_array((50, 20), density=0.1, format="csr", random_state=0)
    assert settings_for(counts, "auto") == {"scales": ("none",), "bags": True}
    assert settings_for(counts.toarray(), "auto") == {"scales": ("standard", "minmax"), "bags": True}
    assert settings_for(np.ones((4, 3)), "none") == {"scales": ("none",), "bags": False}


def test_only_bags_have_features_dropped_and_smile_has_one_turn_on_dense_features_unless_alone():
    shape, keys = (1000, 9, 5), ("wan", "smile", "an")
    dense = list(islice(candidates(keys, shape, scales=("none",), bags=False), 7))
    assert [c.key for c in dense] == ["wan", "smile", "an", "wan", "an", "wan", "an"]
    bags = list(islice(candidates(keys, shape, scales=("none",), bags=True), 4))
    assert [c.key for c in bags] == ["wan", "an", "wan", "an"]
    assert [c.settings.get("input_dropout", 0.0) > 0 for c in dense + bags] == [False] * 7 + [True] * 4
    alone = list(islice(candidates(("smile",), shape, scales=("none",), bags=True), 3))
    assert [c.key for c in alone] == ["smile"] * 3
    assert not list(candidates(("smile",), (20_000, 9, 1000), scales=("none",), bags=True))

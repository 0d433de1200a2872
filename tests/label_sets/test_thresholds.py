"""Thresholds against their definition: counts that are met, and exhaustive search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logit

from onepos.label_sets.thresholds import (
    balanced_weight,
    cardinality_threshold,
    label_rates,
    label_sets,
    promised_threshold,
    rate_thresholds,
    resolve_n_positives,
    sample_thresholds,
)

SEEDS = st.integers(0, 2**16)


def problem(seed, n=40, c=5, digits=8):
    rng = np.random.default_rng(seed)
    scores = rng.random((n, c)).round(digits)
    return scores, (rng.random((n, c)) < scores).astype(int)


@settings(deadline=None)
@given(seed=SEEDS, share=st.floats(0.01, 1.0))
def test_the_mean_number_of_labels_is_met(seed, share):
    scores, _ = problem(seed)
    wanted = share * scores.shape[1]
    sets = label_sets(scores, cardinality_threshold(scores, wanted))
    assert abs(sets.sum(axis=1).mean() - wanted) <= 0.5 / len(scores) + 1e-9


@settings(deadline=None)
@given(seed=SEEDS)
def test_any_increasing_change_of_the_scores_gives_the_same_sets(seed):
    """So it does not matter whether a method learned p or p/m."""
    scores, _ = problem(seed)
    direct = label_sets(scores, cardinality_threshold(scores, 1.7))
    changed = label_sets(scores**3 / 4, cardinality_threshold(scores**3 / 4, 1.7))
    assert np.array_equal(direct, changed)


@settings(deadline=None)
@given(seed=SEEDS, rates=st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_rates_are_met(seed, rates):
    scores, _ = problem(seed)
    sets = label_sets(scores, rate_thresholds(scores, rates))
    assert np.all(np.abs(sets.mean(axis=0) - rates) <= 0.5 / len(scores) + 1e-9)


@settings(deadline=None)
@given(seed=SEEDS, digits=st.sampled_from([1, 8]), measure=st.sampled_from(["f1", "hamming"]))
def test_the_best_of_one_label_by_exhaustive_search(seed, digits, measure):
    scores, truth = (values[:, :1] for values in problem(seed, digits=digits))
    found = label_sets(scores, sample_thresholds(scores, truth, measure=measure))

    def value(sets):
        if measure == "f1":
            return 2 * (sets * truth).sum() / (sets.sum() + truth.sum())
        return -np.mean(sets != truth)

    cuts = [*np.unique(scores), 2.0]
    assert value(found) == pytest.approx(max(value(scores >= cut) for cut in cuts))


def test_a_rare_label_stays_near_the_common_threshold():
    """Between the common threshold and its own, in log-odds: the nearer to its own, the more rows have it."""
    scores, truth = problem(3)
    own = sample_thresholds(scores[:, 2:3], truth[:, 2:3])[0]
    pooled = sample_thresholds(scores.reshape(-1, 1), truth.reshape(-1, 1))[0]
    n = min(truth[:, 2].sum(), (1 - truth[:, 2]).sum())
    expected = (n * logit(own) + 5 * logit(pooled)) / (n + 5)
    assert logit(sample_thresholds(scores, truth)[2]) == pytest.approx(expected)
    truth[:, 2] = 0
    pooled = sample_thresholds(scores.reshape(-1, 1), truth.reshape(-1, 1))[0]
    assert sample_thresholds(scores, truth)[2] == pooled


@settings(deadline=None)
@given(seed=SEEDS, share=st.floats(0.05, 1.0))
def test_rates_sum_to_the_number_of_positives_and_are_shares(seed, share):
    rng = np.random.default_rng(seed)
    c = 6
    observed = np.eye(c, dtype=int)[rng.choice(c, 50, p=rng.dirichlet(np.ones(c)))]
    seen = observed.sum(axis=0) > 0
    m = share * seen.sum()
    rates = label_rates(observed, m)
    assert rates.sum() == pytest.approx(m)
    assert ((rates >= 0) & (rates <= 1)).all()
    assert np.all(rates[~seen] == 0)


def test_rates_are_right_where_every_row_has_as_many_labels():
    """Uniform selection from sets of one size: the share of a label among the observed is its rate over m."""
    rng = np.random.default_rng(0)
    weights = np.array([3.0, 2.0, 1.0, 1.0, 0.5])
    sets = np.array([rng.choice(5, 2, replace=False, p=weights / weights.sum()) for _ in range(20_000)])
    truth = np.zeros((len(sets), 5))
    np.put_along_axis(truth, sets, 1, axis=1)
    observed = np.eye(5)[sets[np.arange(len(sets)), rng.integers(0, 2, len(sets))]]
    assert np.allclose(label_rates(observed, 2.0), truth.mean(axis=0), atol=0.015)


def test_rows_are_not_left_empty():
    sets = label_sets([[0.1, 0.2], [0.01, 0.3], [0.6, 0.2]], [0.15, 0.5], at_least_one=True)
    assert sets.tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cardinality_threshold([[0.5, 0.5]], 3), "above 0 and up to 2"),
        (lambda: cardinality_threshold([[0.5, 0.5]], "2"), "must be a number above 0 .* got '2'"),
        (lambda: cardinality_threshold([[0.5, 0.5]], True), "must be a number above 0 .* got True"),
        (lambda: cardinality_threshold([0.5], 1), "shape"),
        (lambda: cardinality_threshold([[np.nan]], 1), "finite"),
        (lambda: rate_thresholds([[0.5, 0.5]], [0.5]), "one per label"),
        (lambda: rate_thresholds([[0.5]], [1.5]), "between 0 and 1"),
        (lambda: label_rates([[0, 0]], 1), "no label was observed"),
        (lambda: label_rates([[1, 0]], 5), "up to 2, the number of labels"),
        (lambda: sample_thresholds([[0.5]], [[1, 0]]), "same shape"),
        (lambda: sample_thresholds([[0.5]], [[1]], measure="auc"), '"f1" or "hamming"'),
    ],
)
def test_clear_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("m", [1.0, 1.5, 3.0, 20.0])
def test_balanced_weight_puts_even_odds_at_one_half(m):
    """A label with p = ½ is observed with probability ½/m; the weighted loss must be least at d = ½."""
    seen, weight = 0.5 / m, balanced_weight(m)
    result = minimize_scalar(
        lambda d: -seen * np.log(d) - weight * (1 - seen) * np.log(1 - d), bounds=(1e-6, 1 - 1e-6), method="bounded"
    )
    assert result.x == pytest.approx(0.5, abs=1e-4)


def test_sources_in_order_given_validation_default():
    full = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=np.int8)
    assert resolve_n_positives(1.7, 3, full) == (1.7, "given")
    assert resolve_n_positives(None, 3, full) == (2.5, "validation")
    assert [resolve_n_positives(None, c) for c in (2, 3, 100)] == [(1.5, "default"), (2.0, "default"), (2.0, "default")]
    assert resolve_n_positives(None, 3, full, one_class=True) == (1.0, "one class")
    assert resolve_n_positives(1.7, 3, one_class=True) == (1.7, "given")


@pytest.mark.parametrize("bad", [0.5, 4.0])
def test_impossible_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="between 1 and 3"):
        resolve_n_positives(bad, 3)


@pytest.mark.parametrize("seed", range(20))
def test_with_ties_the_number_of_labels_is_as_near_as_a_cut_can_make_it(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, size=(7, 4)) / 5 + 0.1
    wanted = rng.uniform(0.1, 4.0)
    chosen = (scores >= cardinality_threshold(scores, wanted)).mean() * 4
    possible = [(scores >= cut).mean() * 4 for cut in (*np.unique(scores), 2.0)]
    assert abs(chosen - wanted) == pytest.approx(min(abs(size - wanted) for size in possible))


def by_definition(scores, Y, goal, name):
    """Conformal risk control, one cut after the other: the sum of losses, and the worst loss of one more row."""
    kept = []
    for cut in np.unique(scores):
        sets = scores >= cut
        if name == "precision":
            bad, total = (sets & ~Y).sum(), sets.sum()
            worst = goal * sets.sum(axis=1).max()
        else:
            bad, total = (Y & ~sets).sum(), Y.sum()
            worst = goal * Y.sum(axis=1).max()
        if bad - (1 - goal) * total + worst <= 1e-9:
            kept.append(cut)
    return (min if name == "precision" else max)(kept, default=None)


@pytest.mark.parametrize("name", ["precision", "recall"])
@pytest.mark.parametrize("goal", [0.5, 0.7, 0.9])
def test_promised_threshold_is_that_of_the_definition(name, goal):
    for seed in range(20):
        random = np.random.default_rng(seed)
        scores = random.random((40, 5)).round(2)  # with ties
        Y = random.random((40, 5)) < scores**0.5
        cut = by_definition(scores, Y, goal, name)
        if cut is None:
            with pytest.raises(ValueError, match="too few to promise"):
                promised_threshold(scores, Y, **{name: goal})
        else:
            sets = scores >= promised_threshold(scores, Y, **{name: goal})
            assert (sets == (scores >= cut)).all()

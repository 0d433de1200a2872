"""Calibration against scikit-learn's logistic regression and quadrature, a known truth, and by what it leaves alone."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_softmax
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

import onepos
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning, ModelFileError
from onepos.label_sets import calibration
from onepos.label_sets.calibration import Calibration, calibration_by_rates, fit_calibration
from onepos.label_sets.thresholds import label_sets
from onepos.metrics import average_precision


def sample(seed, n=80, c=4, slope=1.5):
    random = np.random.default_rng(seed)
    logits = random.normal(-1, 2, (n, c))
    return logits, (random.random((n, c)) < expit(slope * logits + random.normal(0, 1, c))).astype(int)


def by_scikit_learn(scores, Y, offset_width, component_width):
    """The same penalised likelihood: all penalties are those of coefficients of scaled columns."""
    (n, c), z = scores.shape, (scores - scores.mean()) / scores.std()
    levels = np.log(expit(scores).mean(axis=0)) / scores.std()
    principal = PCA().fit_transform(scores)
    principal /= np.sqrt(principal.var(axis=0).sum())
    labels = np.tile(np.eye(c), (n, 1))
    columns = [
        calibration.SLOPE_WIDTH * z.reshape(-1, 1),
        calibration.LEVEL_WIDTH * np.tile(levels - levels.mean(), n)[:, None],
        offset_width * labels,
        *(component_width * labels * np.repeat(one, c)[:, None] for one in principal.T),
    ]
    fitted = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(np.hstack(columns), Y.ravel())
    return fitted.decision_function(np.hstack(columns)).reshape(n, c)


@pytest.mark.parametrize("c", [1, 3, 8])
def test_the_same_as_a_logistic_regression_of_scikit_learn(c, monkeypatch):
    """With one width each nothing is averaged."""
    scores, Y = sample(c, n=200, c=c)
    scores, Y = scores[Y.any(axis=1)], Y[Y.any(axis=1)]
    if c == 1:
        scores, Y = sample(c, n=200, c=1)
    monkeypatch.setattr(calibration, "OFFSET_WIDTHS", (0.8,))
    monkeypatch.setattr(calibration, "COMPONENT_WIDTHS", (0.5,))
    assert fit_calibration(scores, Y).apply(scores) == pytest.approx(by_scikit_learn(scores, Y, 0.8, 0.5), abs=1e-4)


def test_without_penalties_to_speak_of_it_is_platts_regression():
    """One label and many rows: slope and intercept of an ordinary logistic regression."""
    scores, Y = sample(0, n=4000, c=1)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(scores, Y.ravel())
    assert fit_calibration(scores, Y).apply(scores)[:, 0] == pytest.approx(plain.decision_function(scores), abs=0.02)


@pytest.mark.parametrize("true_spread", [0.0, 2.0])
def test_how_far_labels_differ_is_learnt(true_spread):
    """Where labels differ in nothing, sixty rows tempt none of forty into an offset; elsewhere each gets its own."""
    random = np.random.default_rng(5)
    scores, own = random.normal(0, 0.5, (60, 40)), true_spread * random.normal(size=40)
    Y = (random.random(scores.shape) < expit(scores + own)).astype(int)
    found = fit_calibration(scores, Y).apply(np.zeros((1, 40)))[0]
    assert np.abs(found - found.mean() - own + own.mean()).mean() < (0.5 if true_spread else 0.1)


@pytest.mark.parametrize("strength", [0.0, 1.5])
def test_a_label_learns_from_the_scores_of_others(strength):
    """The score of label 1 tells nothing about it, that of label 0 does; or the other way round."""
    random = np.random.default_rng(7)
    scores = random.normal(0, 2, (400, 6))
    eta = scores.copy()
    eta[:, 1] = (strength > 0) * strength * scores[:, 0] + (strength == 0) * scores[:, 1]
    Y = (random.random(scores.shape) < expit(eta)).astype(int)
    change = fit_calibration(scores[:300], Y[:300]).apply(np.vstack([np.zeros(6), 2 * np.eye(6)[0]]))
    assert change[1, 1] - change[0, 1] == pytest.approx(2 * strength, abs=0.6)
    assert change[1, 2] - change[0, 2] == pytest.approx(0, abs=0.6)


def test_the_marginal_likelihood_is_that_of_an_integral():
    """Laplace's approximation against a grid over slope, intercept, offset and weight of one label."""
    random = np.random.default_rng(3)
    z = random.normal(size=(60, 1))
    present = random.random((60, 1)) < expit(1.2 * z + 0.3)
    basis = np.column_stack([np.ones(60), random.normal(size=60)])
    start = calibration._Solution(np.zeros(3), np.zeros((2, 1)), 0.0)
    shared, own = np.array([0.0, 3.0**-2, 0.5**-2]), np.array([0.6, 0.4]) ** -2.0
    found = calibration._newton(z, np.zeros(1), basis, present, shared, own, start)
    grid = [np.linspace(-4, 4, 41), np.linspace(-2, 5, 41), np.linspace(-2.5, 2.5, 31), np.linspace(-1.6, 1.6, 31)]
    c, a, b, w = np.meshgrid(*grid, indexing="ij")
    log_p = (
        -0.5 * ((a / 3.0) ** 2 + (b / 0.6) ** 2 + (w / 0.4) ** 2) - np.log(3.0 * 0.6 * 0.4) - 1.5 * np.log(2 * np.pi)
    )
    for score, other, true in zip(z[:, 0], basis[:, 1], present[:, 0], strict=True):
        log_p -= np.logaddexp(0, np.where(true, -1, 1) * (c + b + a * score + w * other))
    steps = np.prod([points[1] - points[0] for points in grid])
    exact = np.log(np.exp(log_p - log_p.max()).sum() * steps) + log_p.max()
    # The evidence is known up to the (2π)^(1/2) of the free intercept.
    assert found.evidence + 0.5 * np.log(2 * np.pi) == pytest.approx(exact, abs=0.05)


def test_expected_and_true_counts_agree():
    """At each width the free intercept makes them equal over all entries; so the average does about."""
    logits, Y = sample(3, n=300, c=5)
    assert expit(fit_calibration(logits, Y).apply(logits)).sum() == pytest.approx(Y.sum(), rel=2e-3)


def test_rows_without_a_label_change_the_level_only():
    random = np.random.default_rng(4)
    scores = random.normal(0, 1.5, (90, 5))
    Y = (random.random(scores.shape) < expit(scores - 0.5)).astype(int)
    Y[:30], Y[30:, 0] = 0, 1
    found, without = fit_calibration(scores, Y), fit_calibration(scores[30:], Y[30:])
    gap = found.apply(scores) - without.apply(scores)
    assert np.ptp(gap) < 1e-9
    assert gap[0, 0] < 0
    assert expit(found.apply(scores)).sum() == pytest.approx(Y.sum())


def test_a_label_of_few_rows_keeps_to_the_others():
    """All labels are right but the first, whose logits are 3 too low: many rows tell, a dozen only hint at it."""
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, (800, 6))
    Y = (random.random(logits.shape) < expit(logits)).astype(int)
    logits[:, 0] -= 3.0

    def moved(n):
        calibrated = fit_calibration(logits[:n], Y[:n]).apply(np.array([[-3.0, 0, 0, 0, 0, 0]]))[0]
        return calibrated[0] - calibrated[1:].mean() + 3.0

    assert moved(800) == pytest.approx(3.0, abs=0.4)
    assert moved(12) < 2.9


def biased(kind, seed, n=4000, c=15):
    """Labels, and log-shares of the one that is written down: P(observed = j | x) ∝ e_j(x)·p_j(x)."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    eta = 1.5 * X @ random.normal(size=(4, c)) / 2 + random.normal(-1.5, 1, c)
    Y = (random.random((n, c)) < expit(eta)).astype(int)
    log_e = {
        "uniform": 0.0,
        "frequency": 1.0 * np.log(expit(eta).mean(axis=0)),
        "dominance": random.normal(0, 1.5, c),
        "hidden factor": random.normal(0, 1, c) + random.normal(size=(n, 1)) * random.normal(0, 1, c),
    }[kind]
    return log_softmax(np.log(expit(eta)) + log_e, axis=1), Y, eta


@pytest.mark.parametrize(("kind", "left"), [("frequency", 0.3), ("dominance", 0.25), ("hidden factor", 0.5)])
def test_simulated_bias_is_undone(kind, left):
    """Fifty rows bring the ranking most of the way from the biased one to that by the true probabilities."""
    gaps = []
    for seed in range(4):
        scores, Y, eta = biased(kind, seed)
        best, before = (average_precision(Y[50:], ranking[50:]) for ranking in (eta, scores))
        after = average_precision(Y[50:], fit_calibration(scores[:50], Y[:50]).apply(scores[50:]))
        gaps.append((best - after, best - before))
    lost = np.mean(gaps, axis=0)
    assert lost[0] < left * lost[1] + 0.01


def test_known_shares_undo_dominance():
    """P(observed = j | x) is proportional to e_j p_j(x): the offsets take e_j away again, up to the row's factor."""
    scores, Y, eta = biased("dominance", 1)
    after = calibration_by_rates(scores, expit(eta).mean(axis=0)).apply(scores)
    best, before = (average_precision(Y, ranking) for ranking in (eta, scores))
    assert best - average_precision(Y, after) < 0.15 * (best - before)
    with pytest.raises(ValueError, match="above 0 and below 1"):
        calibration_by_rates(scores, np.full(15, 1.0))


def test_uniform_choice_is_left_alone():
    changes = []
    for seed in range(8):
        scores, Y, _ = biased("uniform", seed)
        after = fit_calibration(scores[:50], Y[:50]).apply(scores[50:])
        changes.append(average_precision(Y[50:], after) - average_precision(Y[50:], scores[50:]))
    assert abs(np.mean(changes)) < 0.004
    assert min(changes) > -0.015


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**16))
def test_the_order_of_labels_and_rows_does_not_matter(seed):
    logits, Y = sample(seed)
    random = np.random.default_rng(seed)
    order, rows = random.permutation(logits.shape[1]), random.permutation(len(logits))
    direct, permuted = fit_calibration(logits, Y), fit_calibration(logits[rows][:, order], Y[rows][:, order])
    assert np.allclose(permuted.apply(logits[:, order]), direct.apply(logits)[:, order], atol=1e-4)


def test_labels_that_are_tagged_often_and_true_rarely_are_no_error():
    """Scores that are the same for all rows, in the wrong order: the sample turns it round."""
    random = np.random.default_rng(0)
    rates = np.linspace(0.05, 0.6, 12)
    scores, Y = np.tile(-np.log(rates), (60, 1)), random.random((60, 12)) < rates
    found = fit_calibration(scores, Y)
    assert spearmanr(expit(found.apply(scores))[0], rates).statistic > 0.8


def test_a_sample_that_is_separated_perfectly_gives_a_finite_slope():
    logits = np.tile(np.linspace(-3, 3, 20)[:, None], (1, 3))
    after = fit_calibration(logits, logits > 0).apply(logits)
    assert (np.diff(after, axis=0) > 0.1).all()
    assert np.abs(after).max() < 100


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z, Y: (z[:9], Y[:9]), "at least 10 rows.*got 9 rows"),
        (lambda z, Y: (z, 0 * Y), "0 present"),
        (lambda z, Y: (z, 0 * Y + 1), "0 absent"),
        (lambda z, Y: (z, Y[:-1]), "same 2-D shape"),
        (lambda z, Y: (0 * z, Y), "all scores of the sample are equal"),
        (lambda z, Y: (-z, Y), "no better than chance"),
        (lambda z, Y: (np.where(z > 0, np.inf, z), Y), "must be finite"),
    ],
)
def test_what_cannot_be_calibrated(change, message):
    with pytest.raises(ValueError, match=message):
        fit_calibration(*change(*sample(0)))


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(3000, 6, 5, n_positives=2.2, random_state=4)


@pytest.fixture
def model(data):
    Y = pd.DataFrame(data.observed[:1500], columns=list("abcde"))
    return onepos.make_classifier("an", network=(), max_epochs=40, learning_rate=0.03, random_state=0).fit(
        data.X[:1500], Y
    )


def gap(probabilities, data, rows):
    """How far probabilities are from those that the labels were drawn with."""
    return np.abs(probabilities - data.posterior[rows]).mean()


def test_probabilities_come_near_those_that_the_labels_were_drawn_with(model, data):
    rest, few = slice(1700, None), slice(1500, 1700)
    before = model.predict_proba(data.X[rest])
    after = model.calibrate(data.X[few], data.Y[few]).predict_proba(data.X[rest])
    assert gap(after, data, rest) < 0.5 * gap(before, data, rest)
    # A rate near ½ seen in 200 rows has a standard error of 0.035.
    assert abs(after.mean(axis=0) - data.posterior[rest].mean(axis=0)).max() < 0.09
    # In bins of equal probability the share of true labels is that probability.
    order = np.argsort(after.ravel())
    means = [
        (after.ravel()[part].mean(), data.posterior[rest].ravel()[part].mean()) for part in np.array_split(order, 8)
    ]
    assert np.abs(np.diff(means, axis=1)).max() < 0.06
    assert model.predict(data.X[few]).sum(axis=1).mean() == pytest.approx(data.Y[few].sum(axis=1).mean(), abs=0.01)
    halved = model.calibrate(data.X[few], data.Y[few], sets="half")
    assert (halved.predict(data.X[rest]) == label_sets(after, 0.5, at_least_one=True)).all()
    assert np.allclose(expit(model.decision_function(data.X[rest])), after)


def test_a_second_call_starts_from_the_model(model, data):
    first = model.calibrate(data.X[1500:1600], data.Y[1500:1600]).calibration_
    second = model.calibrate(data.X[1500:1600], data.Y[1500:1600]).calibration_
    assert np.array_equal(first.apply(data.observed), second.apply(data.observed))


def test_thresholds_come_after_and_a_fit_forgets_everything(model, data):
    model.choose_thresholds(data.X, n_positives=2).calibrate(data.X[1500:1600], data.Y[1500:1600])
    assert model.thresholds_from_ == "calibrate"
    sets = model.choose_thresholds(data.X, n_positives=2, at_least_one=False).predict(data.X)
    assert sets.sum(axis=1).mean() == pytest.approx(2, abs=0.01)
    model.fit(data.X, data.observed)
    assert not hasattr(model, "calibration_")


@pytest.mark.parametrize(("goal", "value"), [("precision", 0.8), ("recall", 0.85)])
def test_a_promise_is_kept_on_new_rows(model, data, goal, value):
    """The mean over twenty samples; the surplus of one more wrong row is small."""
    rest, shares = slice(2100, None), []
    for start in range(1500, 2100, 30):
        rows = slice(start, start + 60)
        sets = model.calibrate(data.X[rows], data.Y[rows], **{goal: value}).predict(data.X[rest])
        right = (sets * data.Y[rest]).sum()
        shares.append(right / (sets.sum() if goal == "precision" else data.Y[rest].sum()))
    assert value < np.mean(shares) < value + 0.1
    if goal == "precision":
        assert (sets.sum(axis=1) == 0).any()


def test_a_number_of_positives_that_was_given_wins(data):
    model = onepos.make_classifier("logistic", l2=1.0, n_positives=3.5).fit(data.X[:400], data.observed[:400])
    model.calibrate(data.X[1500:1600], data.Y[1500:1600])
    assert model.predict(data.X[1500:1600]).sum(axis=1).mean() == pytest.approx(3.5, abs=0.02)


def test_columns_are_found_by_name(model, data):
    Y = pd.DataFrame(data.Y[1500:1600], columns=list("abcde"))
    direct = model.calibrate(data.X[1500:1600], Y).calibration_
    assert np.array_equal(model.calibrate(data.X[1500:1600], Y[list("edcba")]).calibration_.offsets, direct.offsets)


def test_clear_errors(model, data):
    with pytest.raises(ValueError, match='sets must be "sample" or "half"'):
        model.calibrate(data.X[:20], data.Y[:20], sets="best")
    with pytest.raises(ValueError, match="same number of rows"):
        model.calibrate(data.X[:20], data.Y[:21])
    with pytest.raises(ValueError, match="40 rows with complete labels are too few to promise"):
        model.calibrate(data.X[:40], data.Y[:40], precision=0.999)
    with pytest.raises(ValueError, match="either Y, complete labels"):
        model.calibrate(data.X[:40])
    with pytest.raises(ValueError, match="pass Y, not rates"):
        model.calibrate(data.X[:40], rates=np.full(5, 0.4), recall=0.5)
    with pytest.raises(ValueError, match="either a precision or a recall"):
        model.calibrate(data.X[:40], data.Y[:40], precision=0.5, recall=0.5)
    with pytest.raises(ValueError, match="between 0 and 1; got 95"):
        model.calibrate(data.X[:40], data.Y[:40], recall=95)
    with pytest.warns(LabelWarning, match="exactly one label"):
        model.calibrate(data.X[:200], data.observed[:200])
    single = onepos.make_classifier("frequency").fit(data.X, data.observed.argmax(axis=1))
    with pytest.raises(ValueError, match="one class per row"):
        single.calibrate(data.X[:20], data.Y[:20])


@pytest.mark.parametrize("key", ["logistic", "an", "softmax", "frequency"])
def test_saved_and_loaded_with_the_same_bits(tmp_path, data, key):
    params = {"logistic": {"l2": 1.0}, "frequency": {}}.get(key, {"max_epochs": 2, "random_state": 0})
    model = onepos.make_classifier(key, **params).fit(data.X[:300], data.observed[:300])
    plain = onepos.load(model.save(tmp_path / "plain"))
    assert not hasattr(plain, "calibration_")
    model.calibrate(data.X[300:400], data.Y[300:400]).choose_thresholds(data.X, n_positives=2)
    again = onepos.load(model.save(tmp_path / "calibrated"))
    assert np.array_equal(again.predict_proba(data.X), model.predict_proba(data.X))
    assert np.array_equal(again.decision_function(data.X), model.decision_function(data.X))
    assert np.array_equal(again.predict(data.X), model.predict(data.X))


def test_a_calibration_of_another_size_is_refused(model, data, tmp_path):
    model.calibrate(data.X[1500:1600], data.Y[1500:1600])
    model.calibration_ = Calibration(1.0, np.zeros(3), np.ones((3, 1)), np.ones((1, 3)), 10)
    with pytest.raises(ModelFileError, match=r"offsets must be of shape \(labels\) = \(5\), not \(3,\)"):
        model.save(tmp_path / "m")

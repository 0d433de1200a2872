"""Calibration against scikit-learn's logistic regression, against a known truth, and by what it must leave alone."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import onepos
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning, ModelFileError
from onepos.label_sets.calibration import OFFSET_SPREADS, SLOPE_SPREAD, Calibration, fit_calibration


def sample(seed, n=80, c=4, slope=1.5):
    random = np.random.default_rng(seed)
    logits = random.normal(-1, 2, (n, c))
    return logits, (random.random((n, c)) < expit(slope * logits + random.normal(0, 1, c))).astype(int)


def by_scikit_learn(logits, Y, width):
    """The same penalised likelihood: both penalties are those of coefficients of scaled columns."""
    n, c = logits.shape
    spread = logits.std()
    columns = np.column_stack(
        [SLOPE_SPREAD * (logits.ravel() - logits.mean()) / spread, width * np.tile(np.eye(c), (n, 1))]
    )
    fitted = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(columns, Y.ravel())
    slope = SLOPE_SPREAD * fitted.coef_[0, 0] / spread
    return slope, fitted.intercept_[0] + width * fitted.coef_[0, 1:] - slope * logits.mean()


@pytest.mark.parametrize("c", [1, 3, 8])
def test_the_same_as_a_logistic_regression_of_scikit_learn(c):
    logits, Y = sample(c, n=200, c=c)
    found = fit_calibration(logits, Y)
    slope, offsets = by_scikit_learn(logits, Y, found.spread)
    assert found.slope == pytest.approx(slope, rel=1e-5)
    assert found.offsets == pytest.approx(offsets, abs=1e-5)


def test_without_penalties_to_speak_of_it_is_platts_regression():
    """One label and many rows: slope and intercept of an ordinary logistic regression."""
    logits, Y = sample(0, n=4000, c=1)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(logits, Y.ravel())
    found = fit_calibration(logits, Y)
    assert found.slope == pytest.approx(plain.coef_[0, 0], rel=1e-3)
    assert found.offsets[0] == pytest.approx(plain.intercept_[0], rel=1e-3)


@pytest.mark.parametrize("true_spread", [0.0, 2.0])
def test_the_spread_of_offsets_is_learnt(true_spread):
    """Where labels differ in nothing, sixty rows tempt none of forty into an offset; elsewhere each gets its own."""
    random = np.random.default_rng(5)
    logits, own = random.normal(0, 0.5, (60, 40)), true_spread * random.normal(size=40)
    Y = (random.random(logits.shape) < expit(logits + own)).astype(int)
    found = fit_calibration(logits, Y)
    assert found.spread <= 0.1 if true_spread == 0 else found.spread >= 1.0
    assert np.abs(found.offsets - found.offsets.mean() - own + own.mean()).mean() < (0.45 if true_spread else 0.03)


def test_the_marginal_likelihood_is_that_of_an_integral():
    """Laplace's approximation against quadrature over the one label's offset that matters, the others known."""
    from scipy.integrate import quad

    from onepos.label_sets.calibration import _newton

    logits, Y = sample(2, n=60, c=3)
    z = (logits - logits.mean()) / logits.std()
    for width in OFFSET_SPREADS[1:4]:
        found = _newton(z, Y > 0, width)
        exact = -0.5 * found.slope**2 / SLOPE_SPREAD**2
        for j in range(3):

            def density(offset, j=j, width=width, found=found):
                eta = found.slope * z[:, j] + found.intercept + offset
                likelihood = np.where(Y[:, j] > 0, eta, 0).sum() - np.logaddexp(0, eta).sum()
                return np.exp(likelihood + 30 - 0.5 * (offset / width) ** 2) / (width * np.sqrt(2 * np.pi))

            exact += np.log(quad(density, -6, 6, points=[found.own[j]])[0]) - 30
        assert found.evidence == pytest.approx(exact, abs=0.05)


def test_at_the_solution_expected_and_true_counts_agree():
    """The intercept is not penalised, so over all entries they are equal; of a label up to its penalty."""
    logits, Y = sample(3, n=300, c=5)
    found = fit_calibration(logits, Y)
    p = expit(found.apply(logits))
    assert p.sum() == pytest.approx(Y.sum(), abs=1e-5)
    common = (found.offsets - found.offsets.mean()).round(6)
    gap = Y.sum(axis=0) - p.sum(axis=0)
    assert np.allclose(gap - gap.mean(), common / found.spread**2, atol=1e-4)


def test_a_label_of_few_rows_keeps_to_the_others():
    """All labels are right but the first, whose logits are 3 too low: many rows tell, a dozen only hint at it."""
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, (800, 6))
    Y = (random.random(logits.shape) < expit(logits)).astype(int)
    logits[:, 0] -= 3.0
    own = [
        found.offsets[0] - found.offsets[1:].mean() for found in (fit_calibration(logits[:n], Y[:n]) for n in (800, 12))
    ]
    assert own[0] == pytest.approx(3.0, abs=0.4)
    assert 0.0 < own[1] < 2.2


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**16), factor=st.floats(0.01, 100), shift=st.floats(-20, 20))
def test_order_within_labels_stays_and_scale_does_not_matter(seed, factor, shift):
    logits, Y = sample(seed)
    after = fit_calibration(logits, Y).apply(logits)
    for j in range(logits.shape[1]):
        assert (np.diff(after[np.argsort(logits[:, j]), j]) >= 0).all()
    moved = factor * logits + shift
    assert np.allclose(fit_calibration(moved, Y).apply(moved), after, rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**16))
def test_the_order_of_labels_does_not_matter(seed):
    logits, Y = sample(seed)
    order = np.random.default_rng(seed).permutation(logits.shape[1])
    direct, permuted = fit_calibration(logits, Y), fit_calibration(logits[:, order], Y[:, order])
    assert np.allclose(permuted.offsets, direct.offsets[order], atol=1e-6)


def test_a_sample_that_is_separated_perfectly_gives_a_finite_slope():
    logits = np.tile(np.linspace(-3, 3, 20)[:, None], (1, 3))
    found = fit_calibration(logits, logits > 0)
    assert 1 < found.slope < 100
    assert np.isfinite(found.offsets).all()


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
    assert (model.predict(data.X[rest]) == (after >= 0.5)).all()
    assert np.allclose(expit(model.decision_function(data.X[rest])), after)


def test_a_second_call_starts_from_the_model(model, data):
    first = model.calibrate(data.X[1500:1600], data.Y[1500:1600]).calibration_
    second = model.calibrate(data.X[1500:1600], data.Y[1500:1600]).calibration_
    assert first.slope == second.slope
    assert np.array_equal(first.offsets, second.offsets)


def test_thresholds_come_after_and_a_fit_forgets_everything(model, data):
    model.choose_thresholds(data.X, n_positives=2).calibrate(data.X[1500:1600], data.Y[1500:1600])
    assert (model.thresholds_ == 0.5).all()
    sets = model.choose_thresholds(data.X, n_positives=2, at_least_one=False).predict(data.X)
    assert sets.sum(axis=1).mean() == pytest.approx(2, abs=0.01)
    model.fit(data.X, data.observed)
    assert not hasattr(model, "calibration_")


def test_columns_are_found_by_name(model, data):
    Y = pd.DataFrame(data.Y[1500:1600], columns=list("abcde"))
    direct = model.calibrate(data.X[1500:1600], Y).calibration_
    assert np.array_equal(model.calibrate(data.X[1500:1600], Y[list("edcba")]).calibration_.offsets, direct.offsets)


def test_clear_errors(model, data):
    with pytest.raises(ValueError, match="same number of rows"):
        model.calibrate(data.X[:20], data.Y[:21])
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
    model.calibration_ = Calibration(1.0, np.zeros(3), 10, 1.0)
    with pytest.raises(ModelFileError, match=r"offsets must be of shape \(labels\) = \(5\), not \(3,\)"):
        model.save(tmp_path / "m")

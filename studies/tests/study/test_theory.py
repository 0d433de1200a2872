"""The risk identities against enumeration, Monte Carlo with stated intervals, and independent optimisers."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from scipy.special import expit, logit

import risk_theory as theory
from onepos.label_sets.thresholds import balanced_weight
from onepos.training import losses

Z_999 = float(stats.norm.ppf(0.9995))  # two-sided 99.9 % interval


def sets_of(n_labels):
    return np.array(list(product([0.0, 1.0], repeat=n_labels)))


def bernoulli_probabilities(row):
    """P(Y) of every subset for independent labels; the order of ``sets_of``."""
    return np.prod(np.where(sets_of(len(row)) > 0, row, 1.0 - row), axis=1)


def enumerated_observation(subsets, probabilities):
    """E[1{j∈Y}/|Y|] given Y ≠ ∅, straight from the definition."""
    some = subsets.sum(axis=1) > 0
    share = subsets[some] / subsets[some].sum(axis=1, keepdims=True)
    return probabilities[some] @ share / probabilities[some].sum()


def population(seed, *, curvature, n_atoms=2000, n_features=4, n_labels=4):
    """Finite uniform population: every expectation below is a plain mean, without evaluation error.

    The posterior is logistic in x, plus ``curvature`` times products of features that no linear class holds.
    """
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1, 1, (n_atoms, n_features))
    directions = rng.standard_normal((n_features, n_labels))
    directions *= 1.5 / np.linalg.norm(directions, axis=0)
    curved = inputs * np.roll(inputs, 1, axis=1)
    posterior = expit(inputs @ directions - 0.3 + curvature * curved[:, :n_labels])
    return np.hstack([inputs, np.ones((n_atoms, 1))]), posterior


def within(sample, exact, z=Z_999):
    """Tell whether ``exact`` lies in the z-interval of the sample's mean, and that interval's half-width."""
    half = z * sample.std(ddof=1) / np.sqrt(len(sample))
    return abs(sample.mean() - exact) <= half, half


def numeric_minimiser(positive, negative):
    """argmin over f of −positive·log f − negative·log(1−f), by a bounded scalar search."""
    return optimize.minimize_scalar(
        lambda f: -(positive * np.log(f) + negative * np.log(1 - f)),
        bounds=(1e-9, 1 - 1e-9),
        method="bounded",
        options={"xatol": 1e-11},
    ).x


def test_full_risk_is_the_expected_loss_over_all_label_sets():
    rng = np.random.default_rng(0)
    posterior, probabilities = rng.random((6, 4)), rng.uniform(0.05, 0.95, (6, 4))
    subsets = sets_of(4)
    expected = 0.0
    for p, f in zip(posterior, probabilities, strict=True):
        loss = -(subsets * np.log(f) + (1 - subsets) * np.log(1 - f)).sum(axis=1)  # Eq. (3), signs corrected
        expected += bernoulli_probabilities(p) @ loss / 6
    assert theory.full_risk(posterior, probabilities) == pytest.approx(expected, rel=1e-12)
    certain = np.array([[0.0, 1.0]])
    assert (theory.full_risk(certain, certain), theory.full_risk(certain, 1 - certain)) == (0.0, np.inf)


@pytest.mark.parametrize("bound", [np.inf, 0.4])
def test_agrees_with_the_torch_implementation(bound):
    rng = np.random.default_rng(1)
    logits, soft = rng.normal(0, 2, (50, 7)), rng.random((50, 7))
    observed = rng.integers(7, size=50)
    onehot = torch.as_tensor(np.eye(7)[observed])
    torch_weights = losses.risk_weights(torch.as_tensor(logits), onehot, bound)
    weights = theory.risk_weights(expit(logits), observed, bound=bound)
    np.testing.assert_allclose(weights, torch_weights[:, 0].numpy(), rtol=1e-12)
    torch_risk = losses.single_positive_risk(torch.as_tensor(logits), torch.as_tensor(soft), torch_weights)
    numpy_risk = theory.single_positive_risk(soft, expit(logits), weights)
    assert numpy_risk == pytest.approx(float(torch_risk), rel=1e-10)


@pytest.fixture(scope="module")
def known():
    """Posterior, any fixed classifier, and each atom's supervised risk."""
    features, bernoulli = population(3, curvature=1.0)
    posterior = theory.nonempty_posterior(bernoulli)
    classifier = expit(features @ np.random.default_rng(4).normal(0, 0.7, (features.shape[1], 4)))
    return bernoulli, posterior, classifier, theory.cross_entropy_rows(posterior, classifier)


def estimator_draws(posterior, row_risk, rows, gamma):
    return theory.risk_weights(posterior[rows], gamma) * row_risk[rows]


def test_unbiased_under_the_papers_unnormalised_measure(known):
    """x ~ p(x), γ ∝ p_γ, times Σ_γ p_γ: the 99.9 % interval holds R(f); without the factor it does not."""
    _, posterior, classifier, row_risk = known
    rng = np.random.default_rng(10)
    rows = rng.integers(len(posterior), size=400_000)
    draws = estimator_draws(posterior, row_risk, rows, theory.draw_label(posterior[rows], rng))
    mass = posterior.sum(axis=1)
    exact = theory.full_risk(posterior, classifier)
    inside, half = within(mass[rows] * draws, exact)
    assert inside
    assert half < 0.01 * exact
    inside, _ = within(draws, (row_risk / mass).mean())  # the proper distribution: E[ risk(x) / E|Y| ]
    assert inside
    inside, half = within(draws, exact)
    assert not inside
    assert abs(draws.mean() - exact) > 10 * half


def test_unbiased_up_to_a_constant_when_positive_pairs_are_drawn(known):
    """Normalised jointly, p(x,γ)/Z picks one (example, positive label) pair: mean R(f)/Z, Z = E|Y|."""
    _, posterior, classifier, row_risk = known
    rng = np.random.default_rng(11)
    flat = posterior.ravel() / posterior.sum()
    rows, gamma = np.divmod(rng.choice(posterior.size, size=400_000, p=flat), posterior.shape[1])
    draws = estimator_draws(posterior, row_risk, rows, gamma)
    exact = theory.full_risk(posterior, classifier) / posterior.sum(axis=1).mean()
    inside, half = within(draws, exact)
    assert inside
    assert half < 0.01 * exact


def test_uniform_selection_reweights_the_rows(known):
    """E[R̂_sp] = E_x[ risk(x)·Σ_γ P(γ|x)/(p_γ c) ], with the label sets actually drawn (99.9 %)."""
    bernoulli, posterior, classifier, row_risk = known
    rng = np.random.default_rng(12)
    rows = rng.integers(len(posterior), size=400_000)
    label_sets = np.zeros((len(rows), 4))
    while (empty := ~label_sets.any(axis=1)).any():
        label_sets[empty] = rng.random((empty.sum(), 4)) < bernoulli[rows[empty]]
    gamma = theory.draw_label(label_sets, rng)
    assert label_sets[np.arange(len(rows)), gamma].all()
    exact = (row_risk * (theory.observation_probability(bernoulli) / posterior).mean(axis=1)).mean()
    inside, half = within(estimator_draws(posterior, row_risk, rows, gamma), exact)
    assert inside
    assert half < 0.01 * exact
    assert abs(exact - theory.full_risk(posterior, classifier)) > 0.1 * exact


@pytest.mark.parametrize("selection", ["proportional", "uniform"])
def test_pointwise_minimiser_is_the_posterior_whatever_selects(known, selection):
    bernoulli, posterior, _, _ = known
    gamma = {"proportional": posterior, "uniform": theory.observation_probability(bernoulli)}[selection][:1]
    row_weight = (gamma / gamma.sum() / posterior[:1]).mean()
    for d in posterior[0]:
        assert numeric_minimiser(row_weight * d, row_weight * (1 - d)) == pytest.approx(d, abs=1e-6)


@pytest.mark.parametrize("n_labels", [1, 2, 3, 6])
def test_observation_probability_against_enumeration(n_labels):
    rng = np.random.default_rng(n_labels)
    rows = rng.random((20, n_labels))
    rows[0, 0] = 1.0
    rows[1, 1:] = 0.0
    exact = np.array([enumerated_observation(sets_of(n_labels), bernoulli_probabilities(p)) for p in rows])
    np.testing.assert_allclose(theory.observation_probability(rows), exact, rtol=1e-11, atol=1e-15)


def test_observation_probability_against_the_poisson_binomial_recursion():
    rows = np.random.default_rng(0).beta(0.3, 3.0, (5, 60))
    exact = np.empty_like(rows)
    for i, p in enumerate(rows):
        for j in range(60):
            count = np.array([1.0])
            for other in np.delete(p, j):
                count = np.convolve(count, [1 - other, other])
            exact[i, j] = p[j] * (count / np.arange(1, 61)).sum()
    exact /= 1 - np.prod(1 - rows, axis=1, keepdims=True)
    observation = theory.observation_probability(rows)
    np.testing.assert_allclose(observation, exact, rtol=1e-11)
    np.testing.assert_allclose(observation.sum(axis=1), 1.0, rtol=1e-12)


def test_observation_probability_of_tiny_and_large_inputs():
    tiny = np.array([[1e-18, 3e-18]])
    np.testing.assert_allclose(theory.observation_probability(tiny), [[0.25, 0.75]], rtol=1e-12)
    many = np.random.default_rng(0).random((2, 1000))
    np.testing.assert_allclose(theory.observation_probability(many).sum(axis=1), 1.0, rtol=1e-10)
    with pytest.raises(ValueError, match="positive probability"):
        theory.observation_probability(np.zeros((1, 3)))


def test_draws_follow_their_weights():
    """Chi-square at 99.9 % for one row drawn 50 000 times; weights need not sum to one."""
    weights = np.array([0.2, 1.3, 0.0, 0.7])
    gamma = theory.draw_label(np.tile(weights, (50_000, 1)), np.random.default_rng(5))
    counts, keep = np.bincount(gamma, minlength=4), weights > 0
    assert counts[2] == 0
    assert stats.chisquare(counts[keep], 50_000 * weights[keep] / weights.sum()).pvalue > 0.001


def fixed_size_world(n_labels, size, seed):
    """Random distribution over all sets of one size: (sets, probabilities)."""
    subsets = np.array([np.isin(np.arange(n_labels), s) for s in combinations(range(n_labels), size)], float)
    return subsets, np.random.default_rng(seed).dirichlet(np.ones(len(subsets)))


@pytest.mark.parametrize("m", [1, 2, 3])
def test_assume_negative_lands_at_p_over_m_and_the_weight_repairs_one_half(m):
    subsets, probabilities = fixed_size_world(5, m, seed=m)
    observation = enumerated_observation(subsets, probabilities)
    np.testing.assert_allclose(observation, probabilities @ subsets / m, rtol=1e-12)
    for weight in (1.0, balanced_weight(m)):
        numeric = [numeric_minimiser(r, weight * (1 - r)) for r in observation]
        claimed = theory.assume_negative_minimiser(observation, weight)
        np.testing.assert_allclose(numeric, claimed, atol=1e-6)
    half = theory.assume_negative_minimiser(np.array([[0.5 / m]]), balanced_weight(m))
    assert half.item() == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("other", [1.05, 1.8, 2.35])
def test_cardinality_is_not_identified_even_for_independent_labels(other):
    """Label models with 1.47 and ``other`` positives per row show each label with the same probability."""
    first = np.array([[0.5, 0.3, 0.2, 0.1]])
    seen = theory.observation_probability(first)
    assert theory.nonempty_posterior(first).sum() == pytest.approx(1.1 / 0.748, rel=1e-12)

    def mismatch(logits):
        second = expit(logits)[None]
        positives = theory.nonempty_posterior(second).sum()
        return np.append((theory.observation_probability(second) - seen)[0], positives - other)

    found = optimize.least_squares(mismatch, logit(first[0]), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(mismatch(found.x), 0.0, atol=1e-12)


def test_ranking_is_identified_for_independent_labels_but_not_in_general():
    rows = np.random.default_rng(2).random((200, 6))
    order = np.argsort(rows, axis=1)
    assert (np.argsort(theory.observation_probability(rows), axis=1) == order).all()
    # Label 0 comes alone (.4), labels 1–3 come together (.6): more probable, yet seen less often (.2).
    subsets, probabilities = np.array([[1.0, 0, 0, 0], [0, 1.0, 1.0, 1.0]]), np.array([0.4, 0.6])
    np.testing.assert_allclose(enumerated_observation(subsets, probabilities), [0.4, 0.2, 0.2, 0.2])


def test_rademacher_complexity_against_all_sign_patterns():
    rng = np.random.default_rng(6)
    features = rng.normal(size=(10, 3))
    signs = np.array(list(product([-1.0, 1.0], repeat=10)))
    exact = 2.0 * np.linalg.norm(signs @ features, axis=1).mean() / 10
    mean, error = theory.linear_rademacher(features, 2.0, n_draws=200_000, rng=rng)
    assert abs(mean - exact) <= Z_999 * error
    upper = theory.linear_rademacher_bound(features, 2.0, 10)
    assert upper / np.sqrt(2) <= exact <= upper  # Khintchine–Kahane below, Jensen above
    assert upper <= 2.0 * np.linalg.norm(features, axis=1).max() / np.sqrt(10)


def test_loss_bound_is_a_supremum():
    rng = np.random.default_rng(7)
    bound = theory.logistic_loss_bound(2.0, 1.5, weight_bound=3.0, n_labels=4)
    logits = rng.uniform(-3.0, 3.0, (20_000, 4))  # |w·x| ≤ B·R
    assert (3.0 * theory.cross_entropy_rows(rng.random((20_000, 4)), expit(logits))).max() < bound
    worst = 3.0 * theory.cross_entropy_rows(np.zeros((1, 4)), expit(np.full((1, 4), 3.0)))
    assert worst[0] == pytest.approx(bound, rel=1e-12)


def test_the_two_bounds_by_hand():
    settings = {"n_samples": 50, "weight_bound": 3.0, "loss_bound": 7.0, "failure_probability": 0.1}
    printed = theory.theorem1_bound(np.array([0.1, 0.2]), lipschitz=(1.0, 0.5), **settings)
    assert printed == pytest.approx(4 * 2**0.5 * 3 * 2 * 1.5 * 0.3 + 7 * (np.log(20) / 100) ** 0.5, rel=1e-12)
    repaired = theory.repaired_bound(np.array([0.1, 0.2]), **settings)
    assert repaired == pytest.approx(2 * 3 * 0.3 + 14 * (np.log(10) / 100) ** 0.5, rel=1e-12)


def test_lemma_1_needs_the_doubled_deviation():
    """One function (complexity 0), loss 0 or M with equal chance: exact binomial probability of exceeding."""
    n, delta = 1000, 0.05
    deviation = np.sqrt(np.log(2 / delta) / (2 * n))  # in units of M
    exceeds = lambda t: 2 * stats.binom.sf(np.floor(n * (0.5 + t)), n, 0.5)  # noqa: E731
    assert exceeds(deviation / 2) > 3 * delta  # as printed: fails in more than 15 % of samples, not 5 %
    assert exceeds(deviation) <= delta


@pytest.mark.parametrize("norm_bound", [0.1, 50.0])
def test_fit_linear_against_slsqp(norm_bound):
    rng = np.random.default_rng(8)
    features, targets, weights = rng.normal(size=(80, 3)), rng.random((80, 2)), rng.uniform(0.1, 3, (80, 2))
    fitted = theory.fit_linear(features, targets, weights, norm_bound=norm_bound)
    for j in range(2):

        def risk(w, j=j):
            score = features @ w
            return (weights[:, j] * (np.logaddexp(0, score) - targets[:, j] * score)).mean()

        inside = {"type": "ineq", "fun": lambda w: norm_bound**2 - w @ w}
        oracle = optimize.minimize(risk, np.zeros(3), method="SLSQP", constraints=[inside], tol=1e-14)
        assert risk(fitted[:, j]) <= oracle.fun + 1e-10
        np.testing.assert_allclose(fitted[:, j], oracle.x, atol=1e-4)
    norms = np.linalg.norm(fitted, axis=0)
    assert (norms <= norm_bound * (1 + 1e-12)).all()
    assert (norms.max() > norm_bound * (1 - 1e-9)) == (norm_bound == 0.1)  # once active, once not
    with pytest.raises(RuntimeError, match="no convergence"):
        theory.fit_linear(features, targets, weights, norm_bound=norm_bound, max_steps=1)


def selections(posterior, rows, rng):
    """γ and the row weights of R̂_sp for the two ways of drawing: the paper's measure, the experiments'."""
    proportional = theory.draw_label(posterior[rows], rng)
    uniform = theory.draw_label(theory.observation_probability(posterior[rows]), rng)
    return {
        "paper": posterior[rows].sum(axis=1) * theory.risk_weights(posterior[rows], proportional),
        "uniform": theory.risk_weights(posterior[rows], uniform),
    }


def test_exact_soft_labels_in_a_class_that_holds_the_truth_leave_no_gap():
    """With d = p there is no noise: the truth is the empirical minimiser at any n, under any selection."""
    features, posterior = population(20, curvature=0.0)
    rng = np.random.default_rng(21)
    rows = rng.integers(len(features), size=60)
    for weights in selections(posterior, rows, rng).values():
        fitted = theory.fit_linear(features[rows], posterior[rows], weights[:, None], norm_bound=4.0)
        gap = theory.full_risk(posterior, expit(features @ fitted)) - theory.full_risk(posterior, posterior)
        assert abs(gap) < 1e-9


def test_the_gap_shrinks_as_one_over_n_below_both_bounds():
    """Curved truth, linear class. Slope: 99.9 % t-interval over 30 seeds; level: the sandwich formula."""
    features, posterior = population(30, curvature=1.5)
    norm_bound, sizes, seeds = 4.0, (200, 800, 3200), 30
    best = theory.fit_linear(features, posterior, np.ones((len(features), 1)), norm_bound=norm_bound)
    assert np.linalg.norm(best, axis=0).max() < norm_bound  # inside the ball: the sandwich applies
    smallest = theory.full_risk(posterior, expit(features @ best))
    mass, n_labels = posterior.sum(axis=1), posterior.shape[1]
    gaps = np.empty((seeds, len(sizes)))
    for seed, (k, n) in product(range(seeds), enumerate(sizes)):
        rng = np.random.default_rng([30, seed, n])
        rows = rng.integers(len(features), size=n)
        weights = selections(posterior, rows, rng)["paper"]
        fitted = theory.fit_linear(features[rows], posterior[rows], weights[:, None], norm_bound=norm_bound)
        gaps[seed, k] = theory.full_risk(posterior, expit(features @ fitted)) - smallest
    assert (gaps > -1e-12).all()
    slopes = np.array([np.polyfit(np.log(sizes), np.log(row), 1)[0] for row in gaps])
    inside, half = within(slopes, -1.0, z=stats.t.ppf(0.9995, seeds - 1))
    assert inside
    assert slopes.mean() + half < -0.5
    weight_moment = mass * (1.0 / posterior).sum(axis=1) / n_labels**2
    limit = theory.asymptotic_gap(features, posterior, weight_moment, best)
    inside, half = within(sizes[-1] * gaps[:, -1], limit)
    assert inside
    assert half < 0.25 * limit
    kappa = (mass / (posterior.min(axis=1) * n_labels)).max()
    radius = np.linalg.norm(features, axis=1).max()
    loss_bound = theory.logistic_loss_bound(norm_bound, radius, weight_bound=kappa, n_labels=n_labels)
    for k, n in enumerate(sizes):
        complexities = np.full(n_labels, theory.linear_rademacher_bound(features, norm_bound, n))
        repaired = theory.repaired_bound(complexities, n_samples=n, weight_bound=kappa, loss_bound=loss_bound)
        printed = theory.theorem1_bound(complexities, n_samples=n, weight_bound=kappa, loss_bound=loss_bound)
        assert gaps[:, k].max() < repaired < printed


def test_assume_negative_keeps_a_floor_that_the_weight_lowers():
    """AN from 20 000 uniform single positives: far from f*, while the exact population prediction is met."""
    features, bernoulli = population(40, curvature=0.5)
    posterior, observation = theory.nonempty_posterior(bernoulli), theory.observation_probability(bernoulli)
    rng = np.random.default_rng(41)
    rows = rng.integers(len(features), size=20_000)
    onehot = np.eye(4)[theory.draw_label(observation[rows], rng)]
    weight = balanced_weight(posterior.sum(axis=1).mean())

    def gap(x, targets, weights):
        fitted = theory.fit_linear(x, targets, weights, norm_bound=6.0)
        return theory.full_risk(posterior, expit(features @ fitted)) - smallest

    best = theory.fit_linear(features, posterior, np.ones((len(features), 1)), norm_bound=6.0)
    smallest = theory.full_risk(posterior, expit(features @ best))
    plain = gap(features[rows], onehot, np.ones((len(rows), 1)))
    weighted = gap(features[rows], onehot, np.where(onehot > 0, 1.0, weight))
    # The population risk of weighted AN is a weighted logistic risk with soft target r/(r + w(1−r)).
    for measured, w in ((plain, 1.0), (weighted, weight)):
        entry_weights = observation + w * (1.0 - observation)
        limit = gap(features, theory.assume_negative_minimiser(observation, w), entry_weights)
        assert measured == pytest.approx(limit, rel=0.15)
    assert plain > 0.3
    assert weighted < plain / 3

"""The paper's risk identities and Theorem 1, in numpy, for checking the library against known posteriors.

Nothing here trains the library's methods. Arrays are (n_samples, n_labels) unless said otherwise;
``posterior`` holds p(y^j=1|x), which only a simulation knows. Derivations and measured numbers are in
docs/theory.md.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlog1py, xlogy

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def cross_entropy_rows(targets: Array, probabilities: Array) -> Array:
    """Σ_j [ d_j·(−log f_j) + (1−d_j)·(−log(1−f_j)) ] for each row; shape (n_samples,)."""
    entries = xlogy(targets, probabilities) + xlog1py(1.0 - targets, -probabilities)
    return np.asarray(-entries.sum(axis=1))


def full_risk(posterior: Array, probabilities: Array) -> float:
    """R(f), Eq. (1): the fully supervised risk; Y's expectation is exact, the mean over rows stands for that over x."""
    return float(cross_entropy_rows(posterior, probabilities).mean())


def risk_weights(posterior: Array, observed: Indices, *, bound: float = np.inf) -> Array:
    """w_i = min( 1 / (p(y^γ=1|x_i)·c), κ ), shape (n_samples,); ``observed`` holds γ_i, ``bound`` is κ."""
    confidence = posterior[np.arange(len(posterior)), observed]
    return np.asarray(np.minimum(1.0 / (confidence * posterior.shape[1]), bound))


def single_positive_risk(soft_labels: Array, probabilities: Array, weights: Array) -> float:
    """R̂_sp(f), Eq. (6): mean over rows of w_i Σ_j [ d·(−log f) + (1−d)·(−log(1−f)) ]; w is (n_samples,)."""
    return float((weights * cross_entropy_rows(soft_labels, probabilities)).mean())


def draw_label(weights: Array, rng: np.random.Generator) -> Indices:
    """Draw one label γ per row with probability proportional to ``weights``; returns shape (n_samples,).

    With the posterior as weights this is the proper version of p(γ|x) ∝ p(y^γ=1|x); multiplying the estimator
    by the row sum Σ_γ p(y^γ=1|x) then restores the paper's measure, which does not sum to one. With
    ``observation_probability`` as weights it is what "one positive, chosen uniformly" does.
    """
    edges = np.cumsum(weights, axis=1)
    # The last edge is left out: a draw that rounds up to the total must still fall into the last label.
    drawn = rng.random(len(weights))[:, None] * edges[:, -1:]
    return np.asarray((drawn >= edges[:, :-1]).sum(axis=1), dtype=np.intp)


def nonempty_probability(bernoulli: Array) -> Array:
    """P(Y ≠ ∅) = 1 − Π(1−p_j) for independent labels, shape (n_samples, 1)."""
    # Summed as "the first positive is j": all terms are positive, so tiny probabilities keep their digits.
    none_before = np.cumprod(1.0 - bernoulli, axis=1)
    none_before = np.hstack([np.ones((len(bernoulli), 1)), none_before[:, :-1]])
    probability = np.asarray((bernoulli * none_before).sum(axis=1, keepdims=True))
    if not (probability > 0).all():
        raise ValueError("every row needs a label of positive probability: an empty Y has nothing to observe.")
    return probability


def nonempty_posterior(bernoulli: Array) -> Array:
    """p(y^j=1 | x, Y ≠ ∅) for independent labels with probabilities ``bernoulli``."""
    return bernoulli / nonempty_probability(bernoulli)


def observation_probability(bernoulli: Array) -> Array:
    """P(γ=j|x) = E[ 1{j∈Y}/|Y| | x, Y ≠ ∅ ]: one positive chosen uniformly from independent labels, exactly.

    With N the number of *other* positives, E[1/(1+N)] = ∫₀¹ E[t^N] dt = ∫₀¹ Π_{i≠j}(1 − p_i + p_i·t) dt. The
    integrand is a polynomial of degree c−1, for which Gauss–Legendre with ⌈c/2⌉ nodes is exact: the same
    numbers as the Poisson-binomial recursion without its c leave-one-out passes, and every term is positive.
    ``bernoulli`` are probabilities before conditioning on a non-empty set. Rows of the result sum to one; they are all
    that single positives can reveal about a row.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss((bernoulli.shape[1] + 1) // 2)
    inverse_count = np.zeros_like(bernoulli)
    for node, node_weight in zip((nodes + 1.0) / 2.0, node_weights / 2.0, strict=True):
        logs = np.log1p(-bernoulli * (1.0 - node))
        inverse_count += node_weight * np.exp(logs.sum(axis=1, keepdims=True) - logs)
    return bernoulli * inverse_count / nonempty_probability(bernoulli)


def assume_negative_minimiser(observation: Array, unobserved_weight: float = 1.0) -> Array:
    """Minimise AN's population risk: r / (r + w·(1−r)), r = P(γ=j|x), w the weight of unobserved entries."""
    return observation / (observation + unobserved_weight * (1.0 - observation))


def linear_rademacher(
    features: Array, norm_bound: float, *, n_draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Monte-Carlo estimate of the empirical ℜ_n(H_j) of H_j = {x ↦ w·x : ‖w‖ ≤ B}, with its standard error.

    The supremum is known in closed form, B·‖Σ_i σ_i x_i‖/n, so only σ is sampled. ``features`` is
    (n_samples, n_features).
    """
    signs = rng.integers(0, 2, size=(n_draws, len(features))) * 2.0 - 1.0
    suprema = norm_bound * np.linalg.norm(signs @ features, axis=1) / len(features)
    return float(suprema.mean()), float(suprema.std(ddof=1) / np.sqrt(n_draws))


def linear_rademacher_bound(features: Array, norm_bound: float, n_samples: int) -> float:
    """B·√(E‖x‖²/n) ≥ ℜ_n(H_j), at most B·R/√n when ‖x‖ ≤ R; the mean over ``features`` stands for E."""
    return float(norm_bound * np.sqrt(np.square(features).sum(axis=1).mean() / n_samples))


def logistic_loss_bound(norm_bound: float, radius: float, *, weight_bound: float, n_labels: int) -> float:
    """M = κ·c·log(1 + e^{BR}) ≥ sup L_sp over ‖w_j‖ ≤ B, ‖x‖ ≤ R, weights ≤ κ."""
    return float(weight_bound * n_labels * np.logaddexp(0.0, norm_bound * radius))


def theorem1_bound(
    complexities: Array,
    *,
    n_samples: int,
    weight_bound: float,
    loss_bound: float,
    failure_probability: float = 0.05,
    lipschitz: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Theorem 1 as printed: 4√2·κ·c·(ρ⁺+ρ⁻)·Σ_j ℜ_n(H_j) + M·√(log(2/δ)/(2n)).

    ``complexities`` are ℜ_n(H_j) or upper bounds of it, one per label; n is ``n_samples``, κ ``weight_bound``, M
    ``loss_bound``, a bound on L_sp, and δ ``failure_probability``. ``lipschitz`` are ρ⁺ and ρ⁻ with respect to the
    *logit*; both are 1 for the logistic losses. With respect to the probability −log f has no Lipschitz constant.
    """
    complexity = 4.0 * np.sqrt(2.0) * weight_bound * len(complexities) * sum(lipschitz) * complexities.sum()
    return float(complexity + loss_bound * np.sqrt(np.log(2.0 / failure_probability) / (2.0 * n_samples)))


def repaired_bound(
    complexities: Array, *, n_samples: int, weight_bound: float, loss_bound: float, failure_probability: float = 0.05
) -> float:
    """Bound the same gap by 2κ·Σ_j ℜ_n(H_j) + 2M·√(log(1/δ)/(2n)), whose proof has no gap.

    The printed proof takes M/(2n) for the change that one example can cause; it is M/n. In the other
    direction, contraction label by label needs neither √2·c nor the sum of the two Lipschitz constants (they
    are the slopes at the two ends of one convex function). Parameters as in ``theorem1_bound``, ρ⁺ = ρ⁻ = 1.
    """
    deviation = 2.0 * loss_bound * np.sqrt(np.log(1.0 / failure_probability) / (2.0 * n_samples))
    return float(2.0 * weight_bound * complexities.sum() + deviation)


def fit_linear(
    features: Array,
    targets: Array,
    weights: Array,
    *,
    norm_bound: float,
    tolerance: float = 1e-9,
    max_steps: int = 20_000,
) -> Array:
    """Minimise the weighted logistic risk over {sigmoid(Wx) : ‖w_j‖ ≤ B}: accelerated projected gradient.

    ``features`` are X; a column of ones is an intercept, which then counts in the norm. ``targets`` are soft labels d,
    or the observed L for AN; ``weights`` weigh rows (n_samples, 1) or entries; ``norm_bound`` is B. It stops when no
    label's parameters move further than ``tolerance`` in one projected gradient step, and returns Wᵀ, of shape
    (n_features, n_labels).
    """
    n_samples, n_labels = targets.shape
    weights = np.broadcast_to(weights, targets.shape)
    curvature = [np.linalg.eigvalsh((features.T * weights[:, j]) @ features)[-1] for j in range(n_labels)]
    step = 4.0 * n_samples / np.asarray(curvature)  # sigmoid' ≤ 1/4
    current = np.zeros((features.shape[1], n_labels))
    ahead, momentum = current, np.ones(n_labels)
    for _ in range(max_steps):
        slope = features.T @ (weights * (expit(features @ ahead) - targets)) / n_samples
        moved = ahead - step * slope
        moved *= np.minimum(1.0, norm_bound / np.maximum(np.linalg.norm(moved, axis=0), norm_bound))
        # The distance of one projected step is zero at the constrained minimum and nowhere else.
        if np.linalg.norm(moved - ahead, axis=0).max() <= tolerance:
            return np.asarray(moved)
        change = moved - current
        # Momentum that points uphill is dropped, label by label (O'Donoghue & Candès, 2015).
        uphill = ((ahead - moved) * change).sum(axis=0) > 0
        following = np.where(uphill, 1.0, (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0)
        glide = np.where(uphill, 0.0, (momentum - 1.0) / following)
        current, ahead, momentum = moved, moved + glide * change, following
    raise RuntimeError(f"no convergence in {max_steps} steps: raise max_steps or tolerance ({tolerance}).")


def asymptotic_gap(features: Array, posterior: Array, weight_moment: Array, coefficients: Array) -> float:
    """Limit of n·E[R(f̂_sp) − R(f*)] = ½ Σ_j tr(H_j⁻¹ V_j), for soft labels d = p and f* inside the norm ball.

    H_j = E[f(1−f)·x xᵀ] and V_j = E[w²·(f_j − d_j)²·x xᵀ] at f*: the classical sandwich. It is zero when the
    class holds the truth, because exact soft labels then carry no noise at all.

    ``features`` are the population of x, uniform over rows, ``posterior`` is d = p(y^j=1|x) there, ``weight_moment`` is
    E[w² | x] of an estimator with E[w | x] = 1, ``coefficients`` is W of f*, (n_features, n_labels).
    """
    fitted = expit(features @ coefficients)
    total = 0.0
    for j in range(posterior.shape[1]):
        hessian = (features.T * (fitted[:, j] * (1.0 - fitted[:, j]))) @ features
        variance = (features.T * (weight_moment * np.square(fitted[:, j] - posterior[:, j]))) @ features
        total += float(np.trace(np.linalg.solve(hessian, variance)))
    return total / 2.0

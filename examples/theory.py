"""The theory where the truth is known.

The label probabilities of this population are known exactly. So three statements can be checked. The risk estimate of
SMILE's paper is unbiased under the paper's measure. Theorem 1 holds, but its bound is far too large. Assume-negative
learning converges to the limit that the formula predicts.

docs/theory.md explains the results. ``--seeds`` sets the number of repetitions; 12 take about half a minute on one
core.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

import risk_theory as theory
from onepos.label_sets.thresholds import balanced_weight

Array = NDArray[np.float64]

N_FEATURES, N_LABELS, N_ATOMS = 5, 5, 4000
NORM_BOUND = 3.0
SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
NAMES = {
    "paper": "R̂_sp, paper's measure, d and weights known",
    "uniform": "R̂_sp, γ uniform from Y, d and weights known",
    "an": "AN",
    "weighted": "AN, unobserved entries weighted w* = 1/(2m−1)",
}


@dataclass(frozen=True)
class Population:
    """A finite population, uniform over its rows: every expectation over x is an exact mean."""

    features: Array
    posterior: Array  # p(y^j=1 | x, Y ≠ ∅)
    observation: Array  # P(γ=j | x) when one positive is chosen uniformly

    @property
    def mass(self) -> Array:
        """Σ_γ p(y^γ=1|x) = E[|Y| | x], by which the paper's measure exceeds a probability."""
        return np.asarray(self.posterior.sum(axis=1))


def make_population(seed: int = 0) -> Population:
    """Logistic labels with a product of two features in each logit, so that no linear classifier is exact."""
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1, 1, (N_ATOMS, N_FEATURES))
    directions = rng.standard_normal((N_FEATURES, N_LABELS))
    directions *= 1.5 / np.linalg.norm(directions, axis=0)
    bernoulli = expit(inputs @ directions - 0.6 + 1.2 * inputs * np.roll(inputs, 1, axis=1))
    return Population(
        np.hstack([inputs, np.ones((N_ATOMS, 1))]),
        theory.nonempty_posterior(bernoulli),
        theory.observation_probability(bernoulli),
    )


def training_sets(world: Population, n: int, rng: np.random.Generator) -> dict[str, tuple[Array, Array, Array]]:
    """Features, targets and weights of the four estimators, on one sample of n rows."""
    rows = rng.integers(N_ATOMS, size=n)
    x, d = world.features[rows], world.posterior[rows]
    proportional = theory.draw_label(d, rng)
    uniform = theory.draw_label(world.observation[rows], rng)
    onehot = np.eye(N_LABELS)[uniform]
    weight = balanced_weight(float(world.mass.mean()))
    return {
        "paper": (x, d, (world.mass[rows] * theory.risk_weights(d, proportional))[:, None]),
        "uniform": (x, d, theory.risk_weights(d, uniform)[:, None]),
        "an": (x, onehot, np.ones((n, 1))),
        "weighted": (x, onehot, np.where(onehot > 0, 1.0, weight)),
    }


def measure_gaps(world: Population, best: Array, n_seeds: int) -> dict[str, Array]:
    """R(f̂) − R(f*) of each estimator, shape (seeds, sizes); fresh data for every seed and size."""
    risk_of_best = theory.full_risk(world.posterior, expit(world.features @ best))
    gaps = {name: np.empty((n_seeds, len(SIZES))) for name in NAMES}
    for seed in range(n_seeds):
        for k, n in enumerate(SIZES):
            sets = training_sets(world, n, np.random.default_rng([1, seed, n]))
            for name, (x, targets, weights) in sets.items():
                fitted = theory.fit_linear(x, targets, weights, norm_bound=NORM_BOUND)
                gaps[name][seed, k] = theory.full_risk(world.posterior, expit(world.features @ fitted)) - risk_of_best
    return gaps


def exact_limits(world: Population, best: Array) -> dict[str, float]:
    """Gap at n = ∞ of the estimators that keep one: the minimiser of their population risk, against f*."""
    d, r = world.posterior, world.observation
    weight = balanced_weight(float(world.mass.mean()))
    problems = {
        "uniform": (d, (r / d).mean(axis=1, keepdims=True)),
        "an": (r, np.ones((N_ATOMS, 1))),
        "weighted": (theory.assume_negative_minimiser(r, weight), r + weight * (1.0 - r)),
    }
    risk_of_best = theory.full_risk(d, expit(world.features @ best))
    limits = {}
    for name, (targets, weights) in problems.items():
        fitted = theory.fit_linear(world.features, targets, weights, norm_bound=NORM_BOUND)
        limits[name] = theory.full_risk(d, expit(world.features @ fitted)) - risk_of_best
    return limits


def slope_interval(gaps: Array, level: float = 0.95) -> tuple[float, float]:
    """Mean over seeds of the log–log slope, and the half-width of its t-interval."""
    slopes = np.array([np.polyfit(np.log(SIZES), np.log(row), 1)[0] for row in gaps])
    quantile = stats.t.ppf((1 + level) / 2, len(slopes) - 1)
    return float(slopes.mean()), float(quantile * slopes.std(ddof=1) / np.sqrt(len(slopes)))


def bounds(world: Population) -> tuple[Array, Array, float]:
    """Theorem 1 as printed and repaired, at every n (δ = .05), and κ."""
    kappa = float((world.mass / (world.posterior.min(axis=1) * N_LABELS)).max())
    radius = float(np.linalg.norm(world.features, axis=1).max())
    loss_bound = theory.logistic_loss_bound(NORM_BOUND, radius, weight_bound=kappa, n_labels=N_LABELS)
    both = []
    for bound in (theory.theorem1_bound, theory.repaired_bound):
        values = []
        for n in SIZES:
            complexity = theory.linear_rademacher_bound(world.features, NORM_BOUND, n)
            complexities = np.full(N_LABELS, complexity)
            values.append(bound(complexities, n_samples=n, weight_bound=kappa, loss_bound=loss_bound))
        both.append(np.asarray(values))
    return both[0], both[1], kappa


def save(figure: Any, out: Path, name: str) -> None:
    """Write a figure as PNG."""
    figure.savefig(out / f"{name}.png", dpi=110, metadata={"Software": None})


def excess_risk(world: Population, out: Path, n_seeds: int) -> None:
    """Measure the gap for growing n, compare it with Theorem 1 and with its exact limit, and draw it."""
    import matplotlib.pyplot as plt

    best = theory.fit_linear(world.features, world.posterior, np.ones((N_ATOMS, 1)), norm_bound=NORM_BOUND)
    gaps = measure_gaps(world, best, n_seeds)
    printed, repaired, kappa = bounds(world)
    moment = world.mass * (1.0 / world.posterior).sum(axis=1) / N_LABELS**2
    limit = theory.asymptotic_gap(world.features, world.posterior, moment, best)
    slope, half = slope_interval(gaps["paper"])
    risk_of_best = theory.full_risk(world.posterior, expit(world.features @ best))
    print(
        f"population: c={N_LABELS}, q={N_FEATURES}, m={world.mass.mean():.3f}, κ={kappa:.1f}, B={NORM_BOUND}"
        f", largest norm of f* {np.linalg.norm(best, axis=0).max():.2f}"
    )
    print(
        f"R(f*)={risk_of_best:.4f}, Bayes risk {theory.full_risk(world.posterior, world.posterior):.4f}, "
        f"R(f=1/2)={N_LABELS * np.log(2):.4f} nats"
    )
    print(f"mean gap R(f̂)−R(f*) over {n_seeds} seeds, and the bounds of Theorem 1 at δ=.05")
    print("      n  " + "".join(f"{name:>11}" for name in NAMES) + "   sandwich    printed   repaired")
    for k, n in enumerate(SIZES):
        row = [*(gaps[name][:, k].mean() for name in NAMES), limit / n, printed[k], repaired[k]]
        print(f"{n:7d}  " + "".join(f"{value:11.3g}" for value in row))
    limits = {"paper": 0.0, **exact_limits(world, best)}
    print("  limit  " + "".join(f"{limits[name]:11.3g}" for name in NAMES) + "  (exact, n = ∞)")
    below = all((gaps["paper"] < bound).all() for bound in (printed, repaired))
    print(f"log-log slope of the paper's measure: {slope:.3f} ± {half:.3f} (95 % t-interval over seeds)")
    print(f"every gap of every seed below both bounds: {below}")
    vacuous = N_LABELS * np.log(2) - risk_of_best
    for name, bound in (("printed", printed), ("repaired", repaired)):
        needed = SIZES[-1] * (bound[-1] / vacuous) ** 2
        print(f"the {name} bound drops below the gap of f=1/2 ({vacuous:.3f}) at n = {needed:.2g}")

    figure, axes = plt.subplots(figsize=(8.0, 5.6), layout="constrained")
    axes.plot(SIZES, printed, color="0.0", linestyle="--", label="Theorem 1 as printed (δ = .05)")
    axes.plot(SIZES, repaired, color="0.0", linestyle="-.", label="Theorem 1, repaired constants (δ = .05)")
    style = {
        "an": ("C1", "^"),
        "weighted": ("C2", "v"),
        "uniform": ("C3", "s"),
        "paper": ("C0", "o"),
    }
    quantile = stats.t.ppf(0.975, n_seeds - 1)
    for name, (colour, marker) in style.items():
        mean = gaps[name].mean(axis=0)
        error = quantile * gaps[name].std(axis=0, ddof=1) / np.sqrt(n_seeds)
        line = "none" if name == "paper" else ":"
        label = NAMES[name].replace("R̂_sp", r"$\hat{R}_{sp}$").replace("w*", "$w^*$")
        axes.errorbar(
            SIZES,
            mean,
            error,
            color=colour,
            marker=marker,
            linestyle=line,
            capsize=3,
            label=label,
            markerfacecolor="white" if name == "uniform" else colour,
        )
    axes.plot(SIZES, limit / np.asarray(SIZES), color="C0", label="exact limit of the circles: tr(H⁻¹V)/2n")
    axes.annotate(
        f"measured slope −{abs(slope):.2f} ± {half:.2f}",
        (SIZES[3], limit / SIZES[3]),
        xytext=(-6, -26),
        textcoords="offset points",
        ha="right",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="training examples n",
        ylabel="excess risk R(f̂) − R(f*)  [nats per example]",
        title=f"Linear class, curved truth (c = {N_LABELS}, q = {N_FEATURES}); {n_seeds} seeds, 95 % bars",
    )
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    save(figure, out, "theory_excess_risk")
    plt.close(figure)


def unbiased(world: Population, out: Path) -> None:
    """Compare Monte-Carlo means of R̂_sp with exact values, and AN's minimiser with p/m; draw both."""
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(7)
    classifier = expit(world.features @ rng.normal(0, 0.7, (N_FEATURES + 1, N_LABELS)))
    row_risk = theory.cross_entropy_rows(world.posterior, classifier)
    rows = rng.integers(N_ATOMS, size=300_000)
    d = world.posterior[rows]
    proportional = row_risk[rows] * theory.risk_weights(d, theory.draw_label(d, rng))
    uniform = row_risk[rows] * theory.risk_weights(d, theory.draw_label(world.observation[rows], rng))
    cases = [
        ("paper's measure: γ ∝ p, times Σp", world.mass[rows] * proportional, row_risk.mean(), "o"),
        ("γ ∝ p, not rescaled", proportional, (row_risk / world.mass).mean(), "s"),
        (
            "γ uniform from Y",
            uniform,
            (row_risk * (world.observation / world.posterior).mean(axis=1)).mean(),
            "^",
        ),
    ]
    print(f"\nfully supervised risk R(f) = {theory.full_risk(world.posterior, classifier):.4f} nats")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.8), layout="constrained")
    checkpoints = np.array([300, 1000, 3000, 10_000, 30_000, 100_000, 300_000])
    for i, (name, draws, exact, marker) in enumerate(cases):
        means = np.array([draws[:n].mean() for n in checkpoints])
        half = np.array([3.2905 * draws[:n].std(ddof=1) / np.sqrt(n) for n in checkpoints])
        print(f"{name}: Monte Carlo {means[-1]:.4f} ± {half[-1]:.4f} (99.9 %), exact {exact:.4f}")
        offset = checkpoints * 1.07 ** (i - 1)
        left.errorbar(offset, means, half, color=f"C{i}", marker=marker, linestyle="none", capsize=3, label=name)
        left.axhline(exact, color=f"C{i}", linestyle=("-", "--", ":")[i], linewidth=1.2)
    left.set(
        xscale="log",
        xlabel="Monte-Carlo draws",
        ylabel=r"mean of $\hat{R}_{sp}(f)$  [nats per example]",
        title=r"Which risk $\hat{R}_{sp}$ estimates (bars: 99.9 %)" + "\nlines: exact expectation; solid is R(f)",
    )
    left.legend(fontsize=9)

    m = float(world.mass.mean())
    shown = rng.choice(N_ATOMS, size=120, replace=False)
    posterior, observation = world.posterior[shown], world.observation[shown]
    grid = np.linspace(0.0, 1.0, 101)
    for i, (weight, marker, label) in enumerate(
        ((balanced_weight(m), "v", f"AN, weight $w^*$ = {balanced_weight(m):.2f}"), (1.0, "^", "AN"))
    ):
        colour = ("C2", "C1")[i]
        values = theory.assume_negative_minimiser(observation, weight)
        right.scatter(posterior, values, s=9, marker=marker, color=colour, alpha=0.5, label=label)
        right.plot(
            grid,
            theory.assume_negative_minimiser(grid / m, weight),
            color="0.0",
            linestyle=("--", "-")[i],
            label=("p/m and $w^*$", "p/m")[i] + f", m = {m:.2f}",
        )
    right.plot(grid, grid, color="0.6", linewidth=1, label="the truth, f = p")
    right.plot([0.5], [0.5], marker="x", color="0.0", markersize=9, linestyle="none")
    right.set(
        xlabel="p = p(y=1 | x)",
        ylabel="where AN converges",
        title="Exact minimiser of AN under uniform selection\n(120 examples × 5 labels; × marks p = ½ → ½)",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    right.legend(fontsize=9, loc="upper left")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    save(figure, out, "theory_unbiased")
    plt.close(figure)
    ratio = world.observation * m / world.posterior
    print(f"P(γ=j|x)·m / p: mean {ratio.mean():.3f}, 5 %–95 % range {np.quantile(ratio, [0.05, 0.95]).round(3)}")


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("demo-output/theory"), help="folder for the figures")
    parser.add_argument("--seeds", type=int, default=12, help="repetitions for each number of training examples")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    import matplotlib

    matplotlib.use("Agg")
    start = time.perf_counter()
    world = make_population()
    excess_risk(world, out, options.seeds)
    unbiased(world, out)
    print(f"\nfigures in {out}; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

"""Whether `calibrate --precision` and `--recall` keep their promise: simulated tables whose tags are chosen.

Run: python benchmarks/promises.py [repetitions] [complete rows]

Each repetition draws new labels, features and readiness of labels to be named, a sample of complete rows and 1,000 new
rows. The table shows precision or recall on the new rows: their mean, and the share of samples in which it reaches the
promise. A sample that cannot promise it is refused.
"""

import sys

import numpy as np
from scipy.special import expit, log_softmax

from onepos.label_sets.calibration import fit_calibration, out_of_fold
from onepos.label_sets.thresholds import promised_threshold

N_LABELS, N_NEW = 10, 1000
GOALS = [("precision", 0.7), ("precision", 0.8), ("precision", 0.9), ("recall", 0.7), ("recall", 0.8), ("recall", 0.9)]


def table(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log-shares of the tag of a row, chosen in proportion to e, and the labels of the rows."""
    random = np.random.default_rng(seed)
    eta = 3.0 * random.normal(size=(n_rows, 4)) @ random.normal(size=(4, N_LABELS)) / 2
    eta += random.normal(-1.0, 1.0, N_LABELS) + 0.5 * random.normal(size=(n_rows, 1))
    Y = random.random(eta.shape) < expit(eta)
    return log_softmax(np.log(expit(eta)) + random.normal(0, 1.0, N_LABELS), axis=1), Y


def main(repetitions: int = 1000, n_rows: int = 50) -> None:
    """Print a row per promise."""
    kept: dict[tuple[str, float], list[float]] = {goal: [] for goal in GOALS}
    for seed in range(repetitions):
        scores, Y = table(seed, n_rows + N_NEW)
        held_out = expit(out_of_fold(scores[:n_rows], Y[:n_rows]))
        new, truth = expit(fit_calibration(scores[:n_rows], Y[:n_rows]).apply(scores[n_rows:])), Y[n_rows:]
        for name, goal in GOALS:
            try:
                sets = new >= promised_threshold(held_out, Y[:n_rows], **{name: goal})
            except ValueError:
                continue
            total = sets.sum() if name == "precision" else truth.sum()
            kept[name, goal].append(float((sets & truth).sum() / max(total, 1)))
    print("| promise | samples that can promise it | mean | reached in |\n|---|---|---|---|")
    for (name, goal), values in kept.items():
        reached = np.mean(np.array(values) >= goal) if values else np.nan
        print(f"| {name} {goal} | {len(values):,} of {repetitions:,} | {np.mean(values):.3f} | {reached:.0%} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Time onepos.metrics against scikit-learn, and measure peak memory on a large problem.

Run: python benchmarks/metrics_speed.py [--skip-large]
Ratios come from one process and one run, so they mean more than the absolute times.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import coverage_error, label_ranking_average_precision_score, label_ranking_loss

from onepos import metrics


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the best of some repeats: the one least disturbed by others on the machine."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return float(best)


def problem(n: int, c: int, positives: float, kind: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    Y = np.zeros((n, c), dtype=kind)
    S = rng.random((n, c), dtype=np.float32)
    for start in range(0, n, 1000):  # in parts, so that making the data sets no memory peak
        Y[start : start + 1000] = rng.random((min(1000, n - start), c), dtype=np.float32) < positives / c
    Y[np.arange(n), rng.integers(c, size=n)] = 1
    return Y, S


def against_sklearn(n: int, c: int, positives: float, kind: type) -> None:
    Y, S = problem(n, c, positives, kind)
    print(f"\n{n} x {c}, {positives:g} positives per row, Y {np.dtype(kind)}, scores float32")
    pairs = {
        "average_precision": (metrics.average_precision, label_ranking_average_precision_score),
        "ranking_loss": (metrics.ranking_loss, label_ranking_loss),
        "coverage": (metrics.coverage, coverage_error),
    }
    total = 0.0
    for name, (ours, theirs) in pairs.items():
        fast, slow = seconds(lambda f=ours: f(Y, S), 5), seconds(lambda f=theirs: f(Y, S), 2)
        total += slow
        print(f"  {name:18} {fast * 1e3:8.1f} ms   scikit-learn {slow * 1e3:8.1f} ms   {slow / fast:6.1f} x")
    fast = seconds(lambda: metrics.evaluate(Y, S), 5)
    ratio = total / fast
    print(f"  {'evaluate (five)':18} {fast * 1e3:8.1f} ms   those three  {total * 1e3:8.1f} ms   {ratio:6.1f} x")


def large(n: int, c: int) -> None:
    Y, S = problem(n, c, 10, np.int8)
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    took = seconds(lambda: metrics.evaluate(Y, S), 1)
    extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before
    print(f"\n{n} x {c}: evaluate {took:.2f} s, peak memory beyond the inputs {extra / 1e6:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-large", action="store_true", help="leave out 100000 x 1000")
    arguments = parser.parse_args()
    if not arguments.skip_large:
        large(100_000, 1000)  # first, while the process has no earlier peak to hide behind
    against_sklearn(10_000, 1000, 10, bool)
    against_sklearn(10_000, 1000, 10, np.int64)
    against_sklearn(10_000, 1000, 300, np.int8)
    against_sklearn(10_000, 14, 4, np.int8)


if __name__ == "__main__":
    main()

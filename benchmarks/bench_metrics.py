"""Section metrics: our ranking metrics against scikit-learn's, and their peak memory on a large problem."""

import numpy as np
import peak
from harness import alternate, ratio, record, seconds_of, spread
from sklearn import metrics as theirs

from onepos import metrics as ours

TITLE = "Metrics against scikit-learn"
ABOUT = """
Average precision, ranking loss and coverage on generated scores (float32), one call each. `evaluate` returns five
metrics at once and is compared with the sum of scikit-learn's three.
"""
PAIRS = {
    "average precision": (ours.average_precision, theirs.label_ranking_average_precision_score),
    "ranking loss": (ours.ranking_loss, theirs.label_ranking_loss),
    "coverage": (ours.coverage, theirs.coverage_error),
}
#: Rows, labels, positives a row, type of Y, target.
PROBLEMS = (
    (10_000, 1000, 10, np.bool_, ">= 10"),
    (10_000, 1000, 10, np.int64, ">= 10"),
    (10_000, 1000, 300, np.int8, ">= 10"),
    (10_000, 14, 4, np.int8, None),
)
LARGE = """
import bench_metrics, peak
Y, S = bench_metrics.problem(100_000, 1000, 10, 'int8')
before = peak.megabytes()
from onepos import metrics
metrics.evaluate(Y, S)
result = {'before': before}
"""


def problem(n, c, positives, kind):
    """Labels and scores at random, at least one positive per row; in parts, so that making them sets no memory peak."""
    rng = np.random.default_rng(0)
    Y = np.zeros((n, c), dtype=kind)
    S = rng.random((n, c), dtype=np.float32)
    for start in range(0, n, 1000):
        Y[start : start + 1000] = rng.random((min(1000, n - start), c), dtype=np.float32) < positives / c
    Y[np.arange(n), rng.integers(c, size=n)] = 1
    return Y, S


def measure(options):
    if options.datasets is not None:
        return  # no data set plays a part here
    for setting in PROBLEMS:
        yield from _compare(*setting, options.repeats)
    runs = [peak.run(LARGE) for _ in range(options.repeats)]
    extra = spread([run["megabytes"] - run["before"] for run in runs])
    yield record("100000 × 1000", "peak memory of `evaluate` beyond its inputs", extra, unit="MB")


def _compare(n, c, positives, kind, target, repeats):
    Y, S = problem(n, c, positives, kind)
    calls = {"our five": seconds_of(lambda: ours.evaluate(Y, S))}
    for name, functions in PAIRS.items():
        for who, function in zip(("ours", "scikit-learn"), functions, strict=True):
            calls[name, who] = seconds_of(lambda function=function: function(Y, S))
    raw = alternate(calls, repeats, warm=True)
    case = f"{n} × {c}, {positives} positives a row, {np.dtype(kind)}"
    for name in PAIRS:
        pair = {who: raw[name, who] for who in ("ours", "scikit-learn")}
        numbers = ratio(pair["scikit-learn"], pair["ours"])
        yield record(case, f"{name}, scikit-learn / ours, s", numbers, target=target, raw=pair)
    three = np.sum([raw[name, "scikit-learn"] for name in PAIRS], axis=0).tolist()
    together = {"our five": raw["our five"], "scikit-learn's three": three}
    numbers = ratio(three, raw["our five"])
    yield record(case, "scikit-learn's three / our five, s", numbers, target=target, raw=together)

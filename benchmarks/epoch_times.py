"""Seconds of an epoch of a neural method, the median of several, beside those of `an` on the same rows.

    python benchmarks/epoch_times.py                          `an` and `smile`
    python benchmarks/epoch_times.py --methods role hill --batch-size 256 --rows 20000

Rows are made up: normal features, one label per row at random. The search of SMILE's graph belongs to no epoch. One
thread; the methods take turns, and the order turns around from one repeat to the next.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from statistics import median

import numpy as np

import onepos


def epoch_seconds(method, X, Y, batch_size):
    """Seconds of the second epoch of a fit: the first one claims memory."""
    settings = {"max_epochs": 2, "early_stopping": False, "batch_size": batch_size, "random_state": 0}
    if method == "smile":
        settings["warm_up_epochs"] = 0
    return onepos.make_classifier(method, **settings).fit(X, Y).history_["seconds"][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["smile"])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, options.features), dtype=np.float32)
    Y = np.eye(options.labels, dtype=np.int8)[rng.integers(options.labels, size=options.rows)]
    methods = ["an", *options.methods]
    seconds = {method: [] for method in methods}
    for repeat in range(options.repeats):
        for method in methods if repeat % 2 == 0 else reversed(methods):
            seconds[method].append(epoch_seconds(method, X, Y, options.batch_size))
    for method, values in seconds.items():
        ratio = median(a / b for a, b in zip(values, seconds["an"], strict=True))
        print(f"{method:<26} {median(values):7.3f} s  {ratio:6.2f} times `an`")


if __name__ == "__main__":
    main()

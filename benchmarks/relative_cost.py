"""What a whole fit of ``smile`` costs, graph and choice of the epoch included, as a multiple of one of ``an``.

python benchmarks/relative_cost.py                   nine sets, default settings, one thread; on a quiet machine
python benchmarks/relative_cost.py --sets yeast      some of them
python benchmarks/relative_cost.py --keys smile,role other methods

Times are CPU seconds of the process. A line has the seconds and the average precision on test rows of the first trial.
"""

import argparse
import time
import warnings

import numpy as np
from default_path import SETS, trial_of

import onepos
from onepos.metrics import average_precision
from onepos.training.machine import limited_threads

#: Most that a fit of ``smile`` should cost.
GOAL = 6.0


def cpu_seconds(key, X, observed, X_test, Y):
    """Seconds of one fit, and average precision."""
    started = time.process_time()
    model = onepos.make_classifier(key, random_state=0).fit(X, observed)
    return time.process_time() - started, average_precision(Y, model.decision_function(X_test))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--keys", default="smile")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with limited_threads(1):
        for key in ("an", *given.keys.split(",")):  # imports and first calls
            onepos.make_classifier(key, max_epochs=1).fit(np.eye(60), np.arange(60) % 3)
        for name in given.sets.split(","):
            parts = trial_of(name, 0)
            base, score = cpu_seconds("an", *parts)
            print(f"{name}: an {base:.1f} s, {score:.3f}", flush=True)
            for key in given.keys.split(","):
                seconds, score = cpu_seconds(key, *parts)
                over = f", above {GOAL:g}" if key == "smile" and seconds > GOAL * base else ""
                print(f"{name}: {key} {seconds:.1f} s, {score:.3f}, ratio {seconds / base:.1f}{over}", flush=True)


if __name__ == "__main__":
    main()

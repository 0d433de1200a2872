"""What is known of the labels' frequencies from one label per row, and what that is worth, on each data set.

python benchmarks/constant_rankings.py [--datasets CAL500,yeast] [--trials 5] [--draws 20] [--out FILE]

One ranking for all rows, by how often each label was observed among the training rows, when one positive per row is
shown, or two, or all; average precision on the complete labels of the study's validation rows, mean over trials and
draws of the positives, ties in random order. What x adds is not in it: that is the distance from the last column to
full supervision. Test rows are not touched.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from onepos.metrics import average_precision
from onepos_studies.study.cells import load_trial

NINE = "CAL500,image,scene,yeast,corel5k,rcv1-s1,tmc2007,corel16k-s1,delicious"


def shown(Y, labels, rng):
    """Counts of the labels when so many positives of each row are shown, drawn at random; None: all."""
    if labels is None:
        return Y.sum(axis=0, dtype=float)
    keys = np.where(Y > 0, rng.random(Y.shape), 2.0)
    first = np.argpartition(keys, min(labels, Y.shape[1]) - 1, axis=1)[:, :labels]
    kept = np.take_along_axis(keys, first, axis=1) < 2.0
    return np.bincount(first[kept], minlength=Y.shape[1]).astype(float)


def rankings(name, trials, draws):
    """Mean average precision by the number of positives shown."""
    found = {"one": [], "two": [], "all": []}
    for number in range(trials):
        trial = load_trial(name, 0, number, (0.8, 0.1, 0.1), "uniform", 1.0)
        rng = np.random.default_rng(number)
        for _ in range(draws):
            for key, labels in zip(found, (1, 2, None), strict=True):
                counts = shown(np.asarray(trial.Y_train), labels, rng) + 0.5 * rng.random(trial.Y_train.shape[1])
                scores = np.broadcast_to(counts, trial.Y_val.shape)
                found[key].append(average_precision(trial.Y_val, scores))
    return {key: round(float(np.mean(values)), 4) for key, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default=NINE)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {}
    for name in options.datasets.split(","):
        found[name] = rankings(name, options.trials, options.draws)
        print(name, *(f"{key} {value:.3f}" for key, value in found[name].items()), flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

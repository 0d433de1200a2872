"""Section memory: peak memory of a SMILE run above that of the libraries it imports."""

import peak
import problems
from harness import alternate, record, spread

TITLE = "Peak memory of SMILE"
ABOUT = """
A fresh process loads the data set, finds the graph and trains one epoch with default settings. The peak of a process
that only imports the same libraries is subtracted. 1 GB is 10⁹ bytes.
"""
DATASETS = ("tmc2007", "delicious")
TARGET = "<= 1.2"
IMPORTS = """
import numpy, scipy.sparse, sklearn.base, sklearn.utils, torch
import onepos, problems
from onepos import SMILEClassifier
from onepos.datasets import make_single_positive
from onepos_studies.datasets import load_dataset
"""
TRAIN = """
X, Y = problems.single_positive({name!r})
SMILEClassifier(max_epochs=1, early_stopping=False, random_state=0).fit(X, Y)
"""


def measure(options):
    yield from problems.on_each(options.choose(DATASETS), lambda name: _peak(name, options.repeats))


def _peak(name, repeats):
    calls = {
        "whole process, GB": lambda: peak.run(IMPORTS + TRAIN.format(name=name))["megabytes"] / 1e3,
        "imports alone, GB": lambda: peak.run(IMPORTS)["megabytes"] / 1e3,
    }
    raw = alternate(calls, repeats)
    extra = spread([a - b for a, b in zip(*raw.values(), strict=True)])
    yield record(name, "peak above the libraries", extra, unit="GB", target=TARGET, raw=raw)

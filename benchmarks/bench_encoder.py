"""Section encoder: a SMILE epoch on the batch's neighbourhood against one over the whole graph."""

import numpy as np
import problems
from epochs import epoch_seconds, first_losses, step_seconds
from full_graph import FullGraphSMILE, LentFullGraphSMILE
from harness import alternate, ratio, record, spread
from scipy import sparse

from onepos import SMILEClassifier

TITLE = "Encoder: neighbourhood against whole graph"
ABOUT = """
A whole SMILE epoch after the warm-up at the paper's batch size of 16: both losses, both steps. The baseline evaluates
Â·ReLU(ÂX W₁)·W₂ on all rows for every batch, with ÂX computed once (`full_graph.py`). If features are sparse, a
second line gives the baseline our sparse first layer, and so shows the gain of the neighbourhood alone. Seeds and
batches are the same, so the losses of the first steps must agree.
"""
#: Data set → speed-up that must be reached, and whether whole epochs of the baseline end within minutes.
TARGETS = {
    "yeast": (">= 2", True),
    "rcv1-s1": (">= 10", False),
    "corel5k": (">= 20", False),
    "tmc2007": (">= 20", False),
    "corel16k-s1": (">= 30", False),
    "delicious": (">= 100", False),
}
STEPS, STEPS_FULL, CHECKED = 200, 15, 10
NOTE = f"means over steps, the first {STEPS} of ours, {STEPS_FULL} of the baseline; an epoch of either has as many"
KINDS = {"ours": SMILEClassifier, "whole graph": FullGraphSMILE, "whole graph, sparse": LentFullGraphSMILE}


def measure(options):
    yield from problems.on_each(options.choose(TARGETS), lambda name: _compare(name, options.repeats))


def _compare(name, repeats):
    X, Y = problems.single_positive(name)
    case, (target, whole) = f"{name}, batch 16", TARGETS[name]
    # The first fits find the graph, which is then remembered, and claim memory: not timed.
    ours, full, lent = (np.array(first_losses(_model(key), X, Y, CHECKED)) for key in KINDS)
    kinds = list(KINDS) if sparse.issparse(X) else ["ours", "whole graph"]
    if whole:
        calls = {key: lambda key=key: epoch_seconds(_model(key), X, Y) for key in kinds}
    else:
        limits = {"ours": STEPS}
        calls = {key: lambda key=key: step_seconds(_model(key), X, Y, limits.get(key, STEPS_FULL)) for key in kinds}
    raw = alternate(calls, repeats)
    for key in kinds[1:]:
        measured = f"{key} / ours, s per {'epoch' if whole else 'step'}"
        numbers = ratio(raw[key], raw["ours"])
        aim = target if key == "whole graph" else None
        pair = {name: raw[name] for name in ("ours", key)}
        yield record(case, measured, numbers, target=aim, raw=pair, note=None if whole else NOTE)
    full = np.concatenate([full, lent])
    ours = np.concatenate([ours, ours])
    difference = float(np.max(np.abs(ours - full) / np.maximum(np.abs(full), 1e-12)))
    measured = f"largest relative difference of the {len(ours) // 2} losses of {CHECKED} steps"
    yield record(case, measured, spread([difference]), unit="", target="<= 1e-4")


def _model(key):
    return KINDS[key](max_epochs=1, warm_up_epochs=0, early_stopping=False, batch_size=16, random_state=0)

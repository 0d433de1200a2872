"""Section smile: what an epoch of SMILE costs in epochs of AN."""

import problems
from epochs import epoch_seconds
from harness import alternate, ratio, record

from onepos import AssumeNegativeClassifier, SMILEClassifier

TITLE = "SMILE epoch against AN epoch"
ABOUT = "Second epoch of a fit with default settings, past SMILE's warm-up; the graph is not part of an epoch."
#: Data set → most that SMILE may take, at batch 16 and at batch 256.
TARGETS = {
    "corel5k": {16: "<= 5", 256: "<= 8"},
    "rcv1-s1": {16: "<= 5", 256: "<= 8"},
    "tmc2007": {16: "<= 5", 256: "<= 8"},
    "delicious": {16: "<= 6", 256: "<= 10"},
}


def measure(options):
    yield from problems.on_each(options.choose(TARGETS), lambda name: _compare(name, options.repeats))


def _compare(name, repeats):
    X, Y = problems.single_positive(name)
    for batch_size, target in TARGETS[name].items():
        models = pair(batch_size)
        # One fit beforehand finds the graph, which is then remembered, so that no repeat is unlike the others.
        epoch_seconds(models["SMILE"], X, Y)
        raw = alternate({key: lambda m=model: epoch_seconds(m, X, Y) for key, model in models.items()}, repeats)
        numbers = ratio(raw["SMILE"], raw["AN"])
        yield record(f"{name}, batch {batch_size}", "SMILE / AN, s per epoch", numbers, target=target, raw=raw)


def pair(batch_size):
    """Both methods with default settings, for two epochs."""
    common = {"batch_size": batch_size, "max_epochs": 2, "early_stopping": False, "random_state": 0}
    return {"AN": AssumeNegativeClassifier(**common), "SMILE": SMILEClassifier(warm_up_epochs=0, **common)}

"""Section smile: what an epoch of SMILE costs in epochs of AN."""

from unittest import mock

import problems
from epochs import epoch_seconds
from harness import alternate, ratio, record
from torch import nn

from onepos import AssumeNegativeClassifier, SMILEClassifier
from onepos.methods.smile import enhancement as _label_enhancement

TITLE = "SMILE epoch against AN epoch"
AUTOMATIC = "AN of an ordinary loop"
ABOUT = """
The second epoch of a fit with default settings, after SMILE's warm-up. The graph search is not part of an epoch. A
second line has AN with the same network passed as a user's own. In a third line, torch differentiates SMILE's T_LE
instead of the kernel. All sets here have 20 labels or more, so the derivatives of the Beta draws are smooth and exact
to 0.3 % in the mean. A fourth line has the implicit derivatives that are used with fewer labels.
"""
INTERPRETED = "SMILE without its kernel"
IMPLICIT = "SMILE with implicit derivatives"
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
        models = pair(batch_size) | {AUTOMATIC: differentiated_by_torch(batch_size)}
        calls = {key: lambda m=model: epoch_seconds(m, X, Y) for key, model in models.items()}
        calls[INTERPRETED] = _patched(calls["SMILE"], _label_enhancement, "USE_KERNEL", False)
        calls[IMPLICIT] = _patched(calls["SMILE"], _label_enhancement, "FAST_DRAWS_FROM", Y.shape[1] + 1)
        # One fit beforehand finds the graph, which is then remembered, so that no repeat is unlike the others.
        calls["SMILE"]()
        raw = alternate(calls, repeats)
        pairs = (("SMILE", "AN"), ("SMILE", AUTOMATIC), (INTERPRETED, "AN"), (IMPLICIT, "AN"))
        for (above, below), aim in zip(pairs, (target, None, None, None), strict=True):
            both = {key: raw[key] for key in (below, above)}
            numbers = ratio(both[above], both[below])
            case, measure = f"{name}, batch {batch_size}", f"{above} / {below}, s per epoch"
            yield record(case, measure, numbers, target=aim, raw=both)


def _patched(call, where, name, value):
    def patched():
        with mock.patch.object(where, name, value):
            return call()

    return patched


def differentiated_by_torch(batch_size):
    """AN with a network of the same layers that the library does not know as its own."""

    def network(n_features, n_labels):
        n_hidden = max(128, n_labels)
        return nn.Sequential(nn.Linear(n_features, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_labels))

    return pair(batch_size)["AN"].set_params(network=network)


def pair(batch_size):
    """Both methods with default settings, for two epochs."""
    common = {"batch_size": batch_size, "max_epochs": 2, "early_stopping": False, "random_state": 0}
    return {"AN": AssumeNegativeClassifier(**common), "SMILE": SMILEClassifier(warm_up_epochs=0, **common)}

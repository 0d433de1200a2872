"""Section an: an assume-negative epoch against scikit-learn's MLP and against skorch."""

from contextlib import nullcontext
from importlib.util import find_spec
from unittest import mock

import numpy as np
import problems
import torch
from epochs import epoch_seconds
from harness import alternate, left_out, ratio, record, seconds_of
from sklearn.neural_network import MLPClassifier

from onepos import AssumeNegativeClassifier
from onepos.training.networks import MLP

TITLE = "AN epoch against scikit-learn and skorch"
ABOUT = """
Ours, `sklearn.neural_network.MLPClassifier` and `skorch.NeuralNet` train the same network: one hidden layer of
max(128, c) units, sigmoid outputs, binary cross-entropy, Adam, batch 16, dense float32 features, shuffled. For ours
an epoch is the second epoch of a fit; for the others it is one `partial_fit` after a first one. The last line keeps
denormal numbers instead of flushing them; rare features produce such numbers after some hundred steps.
"""
KEPT = "denormals kept"
TARGETS = {"yeast": ">= 1", "rcv1-s1": ">= 1.5", "corel5k": ">= 1.5", "tmc2007": ">= 1.5"}
SKORCH_TARGET = ">= 2"


def measure(options):
    yield from problems.on_each(options.choose(TARGETS), lambda name: _compare(name, options.repeats))


def _compare(name, repeats):
    X, Y = problems.dense_features(name), problems.single_positive(name)[1]
    case, targets = f"{name}, batch 16", {"scikit-learn": TARGETS[name]}
    calls = {"ours": _ours(X, Y), "scikit-learn": _sklearn(X, Y)}
    calls[KEPT], targets[KEPT] = _with_denormals(calls["ours"]), None
    if find_spec("skorch") is None:
        yield left_out(f"{case}, skorch", "skorch is not installed")
    else:
        calls["skorch"], targets["skorch"] = _skorch(X, Y), SKORCH_TARGET
    raw = alternate(calls, repeats)
    for other, target in targets.items():
        pair = {key: raw[key] for key in ("ours", other)}
        yield record(case, f"{other} / ours, s per epoch", ratio(raw[other], raw["ours"]), target=target, raw=pair)


def _ours(X, Y):
    def epoch():
        settings = {"max_epochs": 2, "early_stopping": False, "scale": "none", "random_state": 0}
        return epoch_seconds(AssumeNegativeClassifier(**settings), X, Y)

    return epoch


def _with_denormals(epoch):
    def patched():
        with mock.patch("onepos.training.loop.flushed_denormals", nullcontext):
            return epoch()

    return patched


def _hidden(Y):
    return max(128, Y.shape[1])


def _sklearn(X, Y):
    settings = {"hidden_layer_sizes": (_hidden(Y),), "batch_size": 16, "alpha": 0.0, "random_state": 0}
    model = MLPClassifier(**settings).partial_fit(X, Y, classes=np.arange(Y.shape[1]))
    return seconds_of(lambda: model.partial_fit(X, Y))


def _skorch(X, Y):
    from skorch import NeuralNet

    network = MLP([X.shape[1], _hidden(Y), Y.shape[1]], generator=torch.Generator().manual_seed(0))
    net = NeuralNet(
        network,
        criterion=torch.nn.BCEWithLogitsLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        batch_size=16,
        max_epochs=1,
        train_split=None,
        iterator_train__shuffle=True,
        verbose=0,
    )
    targets = Y.astype(np.float32)
    net.partial_fit(X, targets)

    def epoch():
        net.partial_fit(X, targets)
        return net.history[-1, "dur"]  # its own clock of the epoch, as ours is

    return epoch

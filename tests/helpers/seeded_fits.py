"""Fit every method once with a fixed seed and store what it says: ``python seeded_fits.py FOLDER THREADS [KEY …]``.

A step of these networks has as much work as ``main`` asks for before several threads compute it, so that their number
matters.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

ROWS = 256
#: Operations per step from which on several threads compute it here; the library asks for more.
WORK = 1e9
#: One setting instead of a grid, and members that are quick.
SETTINGS = {
    "auto": {"methods": ("logistic", "softmax"), "n_folds": 2, "time_budget": None},
    "forest": {"n_trees": 20},
    "glocal": {"feature_l2": 1.0},
    "mlml": {"instance_smoothness": 1.0},
    "d2ml": {"rank_weight": 1.0},
}


def data():
    """Return features, labels to train on, complete labels."""
    from onepos.datasets import make_known_posterior

    made = make_known_posterior(ROWS, 12, 5, random_state=3)
    return np.asarray(made.X), np.asarray(made.observed), np.asarray(made.Y)


def fitted(key):
    """Return a method of the registry, fitted with seed 11."""
    from onepos.methods._neural import NeuralClassifier
    from onepos.methods.registry import METHODS, make_classifier

    kind = METHODS[key].load_class()
    X, observed, Y = data()
    settings = {"random_state": 11}
    if issubclass(kind, NeuralClassifier):
        settings |= {"max_epochs": 2, "network": (800, 800), "batch_size": ROWS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_classifier(key, **settings, **SETTINGS.get(key, {})).fit(X, Y if kind._y_is_full else observed)


def main(folder, threads, keys):
    import torch
    from threadpoolctl import threadpool_limits

    from onepos.training import machine

    torch.set_num_threads(threads)
    machine.SERIAL_WORK = WORK
    with threadpool_limits(threads):
        for key in keys:
            model = fitted(key)
            logits = {"logits": model.decision_function(data()[0])}
            soft = {"soft": model.soft_labels_} if hasattr(model, "soft_labels_") else {}
            np.savez(folder / f"{key}.npz", **logits, **soft)
            model.save(folder / f"{key}.onepos")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

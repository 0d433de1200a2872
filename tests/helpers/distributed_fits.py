"""Fits that several processes do together; run as a program, it does them and writes what came out.

python distributed_fits.py FOLDER          one process, with twice the portions per batch
torchrun … distributed_fits.py FOLDER      two processes: process r writes FOLDER/r.json
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np


def make_dropping(n_features, n_labels):
    """A network that draws from torch's global generator and keeps statistics of its batches."""
    from torch import nn

    return nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, n_labels))


#: Name → (method, settings). 157 rows in batches of 26: the last one has a single row, fewer than there are processes.
CASES = {
    **{key: (key, {}) for key in ("an", "role", "smile", "crisp", "em-apl", "ll-cp")},
    "an with dropout": ("an", {"dropout": 0.3, "input_dropout": 0.2}),
    "an in bfloat16": ("an", {"precision": "bfloat16", "start": "random"}),
    "an in portions": ("an", {"gradient_accumulation": 3}),
    "a network of one's own": ("an", {"network": make_dropping}),
    "smile with dropout": ("smile", {"dropout": 0.3, "elbo_weight": 1.0}),
    "smile, held out": ("smile", {"early_stopping": True, "max_epochs": 4, "patience": 2}),
    "smile from disk": ("smile", {}),
    "an, any seed": ("an", {"random_state": None}),
}
SETTINGS = {"max_epochs": 2, "batch_size": 26, "random_state": 3, "learning_rate": 0.01, "early_stopping": False}
#: Methods that look at labels they have changed need an epoch to change them first.
SETTINGS_OF = {"ll-cp": {"rate_per_epoch": 0.05, "max_epochs": 3}, "em-apl": {"warm_up_epochs": 1, "max_epochs": 3}}


def data():
    from onepos.datasets import make_known_posterior

    return make_known_posterior(157, 6, 5, random_state=0)


def fit(name, folder, n_processes):
    """Fit one case; returns the fitted model."""
    import onepos

    method, own = CASES[name]
    settings = {**SETTINGS, **SETTINGS_OF.get(name, {}), **own}
    if n_processes == 1:
        settings["gradient_accumulation"] = 2 * settings.get("gradient_accumulation", 1)
    known = data()
    X = known.X
    if name.endswith("from disk"):
        X = np.load(folder / "X.npy", mmap_mode="r")
        settings = {**settings, "cache_folder": str(folder / "cache")}
    return onepos.make_classifier(method, **settings).fit(X, known.observed)


def refusals():
    """What goes wrong, as text."""
    import onepos
    from onepos._utils.machine import launched_rank

    known = data()
    rows = slice(launched_rank(), None)
    said = {}
    tries = {
        "different rows": lambda: onepos.make_classifier("an").fit(known.X[rows], known.observed[rows]),
        "no network": lambda: onepos.make_classifier("logistic").fit(known.X, known.observed),
        "another device": lambda: onepos.make_classifier("an", device="cuda:1").fit(known.X, known.observed),
    }
    for name, attempt in tries.items():
        try:
            attempt()
        except ValueError as error:
            said[name] = str(error)
    return said


def main(folder):
    import onepos
    import onepos.rows.stored
    from onepos._utils.machine import launched, launched_rank
    from onepos.training import Callback

    warnings.simplefilter("ignore")
    onepos.rows.stored.LOAD_BELOW_BYTES = 0  # so small a file is read from disk, too
    found = {}
    for name in CASES:
        model = fit(name, folder, 2 if launched() else 1)
        found[name] = {
            "loss": model.history_["loss"],
            "weights": [float(value) for p in model.network_.parameters() for value in p.detach().flatten()],
            "soft_labels": getattr(model, "soft_labels_", np.zeros((0, 0))).tolist(),
            "processes": model.history_.facts.get("processes", 1),
        }
    told = []

    class Listener(Callback):
        def on_epoch_end(self, objective, record):
            told.append(record["epoch"])
            return len(told) == 2

    stopped = onepos.make_classifier("an", **SETTINGS | {"max_epochs": 4}).fit(
        data().X, data().observed, callbacks=[Listener()]
    )
    found["callbacks"] = {"told": told, "epochs": len(stopped.history_)}
    found["refusals"] = refusals() if launched() else {}
    (folder / f"{launched_rank() if launched() else 'alone'}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Fits that are the same in one process and in several; run as a program, it does them and writes what came out.

python distributed_fits.py FOLDER          one process
torchrun … distributed_fits.py FOLDER      several: process r writes FOLDER/r.json
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

#: Name → (method, settings). 157 rows in batches of 26: the last one has a single row, fewer than there are processes.
CASES = {
    **{
        key: (key, {})
        for key in (
            *(
                "an",
                "an-ls",
                "wan",
                "softmax",
                "capped",
                "bce",
                "epr",
                "em",
                "em-apl",
                "ll-r",
                "ll-ct",
                "ll-cp",
                "hill",
                "splc",
            ),
            *("gr", "crisp", "role", "smile", "smile-si", "smile-code"),
        )
    },
    "an with dropout": ("an", {"dropout": 0.3, "input_dropout": 0.2}),
    # At other starts the first gradients of hidden layers are near zero, and Adam enlarges their rounding.
    "an in bfloat16": ("an", {"precision": "bfloat16", "start": "random"}),
    "an in portions": ("an", {"gradient_accumulation": 3}),
    "smile, a graph that weighs": ("smile", {"elbo_weight": 1.0}),
    "smile with dropout": ("smile", {"dropout": 0.3}),
    "smile in portions": ("smile", {"gradient_accumulation": 2}),
    "smile, two draws": ("smile", {"n_draws": 2}),
    "smile, samples": ("smile", {"consistency_on": "sample", "soft_label": "sample"}),
    "smile, new graphs": ("smile", {"graph_on": "embeddings", "graph_refresh": 1, "warm_up_epochs": 1}),
    "smile, held out": ("smile", {"early_stopping": True, "max_epochs": 6, "patience": 2}),
    "smile from disk": ("smile", {}),
    "an, any seed": ("an", {"random_state": None}),
}
SETTINGS = {"max_epochs": 4, "batch_size": 26, "random_state": 3, "learning_rate": 0.01, "early_stopping": False}


def data():
    from onepos.datasets import make_known_posterior

    return make_known_posterior(157, 6, 5, random_state=0)


def fit(name, folder):
    """Fit one case; returns the fitted model."""
    import onepos

    method, settings = CASES[name]
    known = data()
    X = known.X
    if name.endswith("from disk"):
        X = np.load(folder / "X.npy", mmap_mode="r")
        settings = {**settings, "cache_folder": str(folder / "cache")}
    return onepos.make_classifier(method, **{**SETTINGS, **settings}).fit(X, known.observed)


def refusals():
    """What goes wrong, as text."""
    import onepos
    from onepos._utils.launch import launched_rank

    known = data()
    rows = slice(launched_rank(), None)
    said = {}
    tries = {
        "different rows": lambda: onepos.make_classifier("an").fit(known.X[rows], known.observed[rows]),
        "no network": lambda: onepos.make_classifier("linear").fit(known.X, known.observed),
        "another device": lambda: onepos.make_classifier("an", device="cuda:1").fit(known.X, known.observed),
    }
    for name, attempt in tries.items():
        try:
            attempt()
        except ValueError as error:
            said[name] = str(error)
    return said


def main(folder):
    import onepos.rows.stored
    from onepos._utils.launch import launched, launched_rank
    from onepos.training import Callback

    warnings.simplefilter("ignore")
    onepos.rows.stored.LOAD_BELOW_BYTES = 0  # so small a file is read from disk, too
    found = {}
    for name in CASES:
        model = fit(name, folder)
        found[name] = {
            "loss": model.history_["loss"],
            "enhancement": model.history_["label_enhancement"],
            "probabilities": model.predict_proba(data().X).tolist(),
            "soft_labels": getattr(model, "soft_labels_", np.zeros((0, 0))).tolist(),
            "processes": model.history_.facts.get("processes", 1),
        }
    told = []

    class Listener(Callback):
        def on_epoch_end(self, objective, record):
            told.append(record["epoch"])
            return len(told) == 2

    import onepos

    stopped = onepos.make_classifier("an", **SETTINGS).fit(data().X, data().observed, callbacks=[Listener()])
    found["callbacks"] = {"told": told, "epochs": len(stopped.history_)}
    found["refusals"] = refusals() if launched() else {}
    (folder / f"{launched_rank() if launched() else 'alone'}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

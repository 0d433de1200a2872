"""Small fits of every method, whose predictions and losses are kept beside the revision that they belong to.

``python tests/helpers/golden_predictions.py KEY …`` stores those of methods anew. Run it after raising the revision of
a method whose predictions are meant to change.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import onepos
from onepos.datasets import make_known_posterior
from onepos.methods.registry import METHODS, get_method
from seeded_fits import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
#: Of the library's methods, and of those that onepos-studies registers.
STORED, STUDIES = Path(__file__).with_suffix(".json"), ROOT / "studies/tests/methods/golden_predictions.json"
#: Four passes in batches of 16 from a random start; parameters that a method does not have are left out.
SHORT = {
    "max_epochs": 4,
    "warm_up_epochs": 2,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "start": "random",
    "cardinality_correction": "weight",
    "early_stopping": False,
    "random_state": 0,
}
#: SMILE with so many labels that its draws are the smooth ones.
MANY_LABELS = "smile, 24 labels"
#: How far predictions and, relative to their size, losses may be. Far above what other processors, and the kernel
#: instead of torch, make of 60 steps; far below what another seed does to the former, and 1 % more of a loss to these.
TOLERANCE, LOSS_TOLERANCE = 2e-3, 3e-3


def keys():
    """Methods of the library that are fitted; `auto` is made of others, as many as its time allows."""
    return [*(key for key in METHODS if key != "auto"), MANY_LABELS]


def fitted(case):
    """Return what is kept of a case: revision, losses by epoch, probabilities of six rows after a fit on 240 rows."""
    key, n_labels = ("smile", 24) if case == MANY_LABELS else (case, 6)
    data = make_known_posterior(300, 8, n_labels, n_positives=2.0, random_state=7)
    model = onepos.make_classifier(key, **SETTINGS.get(key, {}))
    model.set_params(**{name: value for name, value in SHORT.items() if name in model.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # four epochs are few for some methods, and they say so
        model.fit(data.X[:240], data.Y[:240] if key == "bce" else data.observed[:240])
    history = getattr(model, "history_", None)
    losses = history["loss"] if history is not None and len(history) and "loss" in history[-1] else []
    return {
        "revision": get_method(key).revision,
        "losses": [float(f"{loss:.6g}") for loss in losses],
        "predictions": model.predict_proba(data.X[240:246]).round(6).tolist(),
    }


def check(case, kept, now):
    """Raise AssertionError with what to do if a method does not behave as kept, or if it has another revision."""
    key = case.partition(",")[0]
    if now["revision"] != kept["revision"]:
        raise AssertionError(
            f"{key} has revision {now['revision']}, and what is kept is of revision {kept['revision']}: store the new "
            f"predictions with `python tests/helpers/golden_predictions.py {key}`, and run its rows again "
            "(`onepos bench run … --recompute`)."
        )
    moved = np.abs(np.subtract(now["predictions"], kept["predictions"])).max()
    losses = np.abs(np.divide(now["losses"], kept["losses"]) - 1.0).max(initial=0.0)
    if moved > TOLERANCE or losses > LOSS_TOLERANCE:
        raise AssertionError(
            f"{case}: predictions moved by {moved:.4f} and losses by {losses:.2%}, and the revision of {key} is still "
            f"{kept['revision']}. Raise the revision (methods.toml, or `about` of the class) or revert the change."
        )


def store(cases):
    """Write what is kept of these cases anew."""
    for path in (STORED, STUDIES):
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        kept |= {case: fitted(case) for case in cases if (case.partition(",")[0] in METHODS) == (path == STORED)}
        lines = [f"{json.dumps(case)}: {json.dumps(facts)}" for case, facts in kept.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    store(dict.fromkeys([*sys.argv[1:], *([MANY_LABELS] if "smile" in sys.argv else [])]))

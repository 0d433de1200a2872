"""Small fits of every method, whose predictions are kept in golden_predictions.json.

``python tests/helpers/golden_predictions.py`` writes the file anew. Run it after a change that is meant to
change predictions, and name the change in the changelog.
"""

import json
import warnings
from pathlib import Path

import onepos
from onepos.datasets import make_known_posterior
from onepos.methods.registry import METHODS
from seeded_fits import SETTINGS

STORED = Path(__file__).with_suffix(".json")
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


def keys():
    """Methods that are fitted; `auto` is made of others, as many as its time allows."""
    return [*(key for key in METHODS if key != "auto"), MANY_LABELS]


def predictions(case):
    """Probabilities of six rows, by a fit on 240 rows."""
    key, n_labels = ("smile", 24) if case == MANY_LABELS else (case, 6)
    data = make_known_posterior(300, 8, n_labels, n_positives=2.0, random_state=7)
    model = onepos.make_classifier(key, **SETTINGS.get(key, {}))
    model.set_params(**{name: value for name, value in SHORT.items() if name in model.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # four epochs are few for some methods, and they say so
        model.fit(data.X[:240], data.Y[:240] if key == "bce" else data.observed[:240])
    return model.predict_proba(data.X[240:246])


if __name__ == "__main__":
    found = {key: predictions(key).round(6).tolist() for key in keys()}
    lines = [f"{json.dumps(key)}: {json.dumps(rows)}" for key, rows in found.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

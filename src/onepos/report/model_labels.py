"""The page's table of labels: how often each is known, how likely the model finds it, how well it is found."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onepos.report.model_summary import Scored


def label_records(scored: "Scored") -> list[dict[str, Any]]:
    """Return one record a label, in the model's order.

    ``average_precision`` and ``f1`` are of the measured rows and need complete labels; None where labels are not, or
    where no measured row has the label.
    """
    positive = scored.known > 0
    training = getattr(scored.model, "facts_", {}).get("counts", {})
    records = []
    for j, name in enumerate(scored.labels):
        records.append(
            {
                "name": name,
                "training": training.get(name),
                "known": int(positive[:, j].sum()),
                "rate": float(positive[:, j].mean()),
                "probability": float(scored.probabilities[:, j].mean()),
                "threshold": float(scored.thresholds[j]),
                "in_sets": int(scored.sets[:, j].sum()),
                "average_precision": None,
                "f1": None,
            }
            | (_quality(scored, j) if scored.complete else {})
        )
    return records


def _quality(scored: "Scored", j: int) -> dict[str, float]:
    from sklearn.metrics import average_precision_score

    rows = scored.measured
    truth, sets = scored.known[rows, j] > 0, scored.sets[rows, j] > 0
    if not truth.any():
        return {}
    both = np.count_nonzero(truth & sets)
    return {
        "average_precision": float(average_precision_score(truth, scored.probabilities[rows, j])),
        "f1": float(2 * both / (np.count_nonzero(truth) + np.count_nonzero(sets))),
    }

"""The facts of a trained ``TableModel``: what a model file holds of them, and those of a search for settings."""

import math
from typing import Any

from onepos._utils import storage

_MAYBE_NUMBER = storage.Maybe(storage.NUMBER)
#: What a model file holds of ``TableModel.facts_``.
FACTS = storage.Record(
    {
        "method": storage.TEXT,
        "rows": storage.COUNT,
        "rows_without_tag": storage.COUNT,
        "training_rows": storage.COUNT,
        "held_out_rows": storage.COUNT,
        "counts": storage.each(storage.COUNT),
        "decisions": storage.Maybe(storage.each(storage.COUNT)),
        "notes": storage.List(storage.TEXT),
        "held_out": storage.Maybe(
            storage.Record(
                {
                    "rows": storage.COUNT,
                    "out_of_fold": storage.TRUTH,
                    "barely_beats_frequency": storage.TRUTH,
                    "methods": storage.each(storage.each(storage.NUMBER)),
                    "reciprocal_rank": storage.NUMBER,
                    "*": storage.NUMBER,
                }
            )
        ),
        "sets": storage.Record(
            {
                "mean_size": storage.NUMBER,
                "n_positives": storage.Maybe(storage.POSITIVE),
                "guessed": storage.TRUTH,
            }
        ),
        "tuning": storage.Maybe(
            storage.Record(
                {
                    "criterion": storage.TEXT,
                    "score": _MAYBE_NUMBER,
                    "stopped": storage.TEXT,
                    "chosen": storage.each(storage.JSON),
                    "trials": storage.List(
                        storage.Record(
                            {
                                "settings": storage.each(storage.JSON),
                                "state": storage.TEXT,
                                "error": storage.Maybe(storage.TEXT),
                                "*": _MAYBE_NUMBER,
                            }
                        )
                    ),
                }
            )
        ),
        "calibration": storage.Maybe(storage.each(storage.NUMBER)),
    }
)


def tuning_facts(search: Any) -> dict[str, Any]:
    """Return what a ``onepos.tuning.TuneResult`` chose and tried, as values that a model file holds."""
    trials = []
    for record in search.trials.to_dict("records"):
        about = {name: _plain(record.pop(name)) for name in ("score", "epochs", "seconds", "state", "error")}
        trials.append({"settings": {name: _plain(value) for name, value in record.items()}, **about})
    return {
        "criterion": search.criterion,
        "score": _plain(search.best_score),
        "stopped": search.stopped,
        "chosen": {name: _plain(value) for name, value in search.best_params.items()},
        "trials": trials,
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; None where there is none."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is None or str(value) == "<NA>" or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value

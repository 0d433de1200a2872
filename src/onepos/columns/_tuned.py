"""What a search for settings tells, as values that a model file holds."""

import math
from typing import Any

#: Columns of the table of trials that are no settings.
_ABOUT_TRIALS = ("score", "epochs", "seconds", "state", "error")


def tuning_facts(found: Any) -> dict[str, Any]:
    """Return what was chosen and what was tried, from a ``onepos.tuning.TuneResult``."""
    trials = []
    for record in found.trials.to_dict("records"):
        about = {name: _known(record.pop(name)) for name in _ABOUT_TRIALS}
        trials.append({"settings": {name: _known(value) for name, value in record.items()}, **about})
    return {
        "criterion": found.criterion,
        "score": _known(found.best_score),
        "stopped": found.stopped,
        "chosen": {name: _known(value) for name, value in found.best_params.items()},
        "trials": trials,
    }


def _known(value: Any) -> Any:
    """Return a value as JSON has it; None for what is not there."""
    if isinstance(value, tuple | list):
        return [_known(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is None or str(value) == "<NA>" or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value

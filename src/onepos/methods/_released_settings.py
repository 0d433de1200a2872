"""The settings that the authors of SMILE printed for their twelve data sets (README of palm-ml/smile)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


def _setting(unobserved_target: float, enhancement_share: float, unobserved_weight: float | str) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "unobserved_target": unobserved_target,
            "enhancement_share": enhancement_share,
            "unobserved_weight": unobserved_weight,
        }
    )


#: Parameters of ``SMILEReleasedClassifier`` by data set: p₀, μ, and the weight of unobserved entries ("auto": 1/(c−1)).
RELEASED_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "CAL500": _setting(0.01, 0.01, 0.1),
        "image": _setting(0.1, 0.9, 0.7),
        "scene": _setting(0.075, 0.3, 0.5),
        "yeast": _setting(0.05, 0.5, 0.1),
        "corel5k": _setting(0.025, 0.1, 0.1),
        "rcv1-s1": _setting(0.01, 0.01, 0.1),
        "corel16k-s1": _setting(0.001, 0.01, "auto"),
        "delicious": _setting(0.01, 0.01, "auto"),
        "iaprtc12": _setting(0.001, 0.01, "auto"),
        "espgame": _setting(0.025, 0.01, "auto"),
        "mirflickr": _setting(0.01, 0.01, 0.1),
        "tmc2007": _setting(0.025, 0.1, 0.3),
    }
)

#: What the README's commands have in common: ten epochs, hidden layers as wide as there are labels, Adam at 1e-3.
RELEASED_COMMON: Mapping[str, Any] = MappingProxyType(
    {"max_epochs": 10, "network": "labels", "learning_rate": 1e-3, "batch_size": 16}
)


def released_settings(name: str) -> dict[str, Any]:
    """All parameters printed for a data set, its name in any case.

    Examples
    --------
    >>> released_settings("Scene")["unobserved_target"]
    0.075
    """
    by_name = {key.casefold(): key for key in RELEASED_SETTINGS}
    if name.casefold() not in by_name:
        raise ValueError(f"no released settings for {name!r}; known: {', '.join(RELEASED_SETTINGS)}.")
    return {**RELEASED_COMMON, **RELEASED_SETTINGS[by_name[name.casefold()]]}

"""One method of each kind: what the checks of shared code say of these, they say of all."""

import pytest

from onepos.methods.registry import METHODS

#: Each way to fit and to predict once: every base class, and what overrides them.
KINDS = (
    "auto",
    "smile",
    "role",
    "an",
    "softmax",
    "capped",
    "kernel",
    "logistic",
    "forest",
    "centroid",
    "frequency",
    "bce",
)


def long_for_others(keys=METHODS):
    """Return keys for ``parametrize``: those of methods that share their code with one of the kinds are long tests."""
    return [key if key in KINDS else pytest.param(key, marks=pytest.mark.long) for key in keys]

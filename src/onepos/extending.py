"""What a method of your own is made of, under public names; docs/contributing-a-method.md shows how.

A method derives from ``NeuralClassifier`` if it is a loss, else from ``OnePositiveClassifier``. Its method
``_make_objective(context)`` returns an ``Objective``, which yields the losses of a ``Batch``. What parameters may be is
in ``_parameter_constraints``, what a model file holds of the class in ``_stored``, by the rules of ``storage``.
"""

from onepos._utils import storage
from onepos._utils.parameters import COUNT, POSITIVE, POSITIVE_OR_ZERO, Constraints, below, one_of
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, LossObjective, Objective

__all__ = [
    "COUNT",
    "POSITIVE",
    "POSITIVE_OR_ZERO",
    "Batch",
    "Constraints",
    "Context",
    "LossObjective",
    "NeuralClassifier",
]
__all__ += ["Objective", "OnePositiveClassifier", "below", "one_of", "storage"]

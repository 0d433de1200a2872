"""Choosing a method's settings without clean labels."""

from onepos.tuning.dimensions import Choice, Integer, LogUniform, Uniform
from onepos.tuning.result import TuneResult
from onepos.tuning.run import tune
from onepos.tuning.spaces import default_space

__all__ = ["Choice", "Integer", "LogUniform", "TuneResult", "Uniform", "default_space", "tune"]

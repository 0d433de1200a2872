"""Choosing a method's settings without clean labels."""

from onepos.tuning.search import TuneResult, tune
from onepos.tuning.spaces import Choice, Integer, LogUniform, Uniform, default_space

__all__ = ["Choice", "Integer", "LogUniform", "TuneResult", "Uniform", "default_space", "tune"]

"""Errors and warnings of the library. Every message says what was expected, what came and what to do."""


class OneposError(Exception):
    """Base class of the errors below."""


class DataFileError(OneposError, ValueError):
    """A data file is corrupt, truncated, of another format, or not what its registry entry says."""


class ModelFileError(OneposError, ValueError):
    """A saved model is corrupt, of another kind, or from a newer version."""


class CheckpointError(OneposError, ValueError):
    """A checkpoint is corrupt, or of a run with other arguments."""


class LostProcessError(OneposError, RuntimeError):
    """Another process of the same training run ended, or does not answer."""


class NotEnoughMemoryError(OneposError, MemoryError):
    """A setting asks for more memory than this machine has left."""


class MissingDependencyError(OneposError, ImportError):
    """An optional dependency is needed for this call and is not installed."""


class LabelWarning(UserWarning):
    """Labels were accepted, but the user should check how they are used."""


class TrainingWarning(UserWarning):
    """Training ended in a way that the user should know of (interrupted, diverged)."""

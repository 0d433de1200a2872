"""Errors of the studies, beside those of ``onepos.exceptions``."""

from onepos.exceptions import DataFileError, OneposError


class ChecksumError(DataFileError):
    """A file's sha256 differs from the one the registry expects."""


class DownloadError(OneposError, OSError):
    """No source of a data file could be reached, or offline mode forbids trying."""


class StudyError(OneposError, ValueError):
    """A study file or a results folder is not valid."""

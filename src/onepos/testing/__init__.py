"""Checks that any onepos estimator must pass, for the methods here and for those that users write.

scikit-learn's ``check_estimator`` covers the single-label contract (1-D y). These cover what is peculiar to one
positive label per row: indicator input, label names, unknown and known-absent labels, files.
"""

from collections.abc import Iterator

from onepos.methods._base import OnePositiveClassifier
from onepos.testing import _bad_input, _contract, _labels
from onepos.testing._tools import Check

__all__ = ["check_onepos_estimator", "yield_onepos_checks"]


def yield_onepos_checks(estimator: OnePositiveClassifier) -> Iterator[tuple[str, Check]]:
    """Yield ``(name, check)`` for an unfitted estimator; ``check(estimator)`` raises AssertionError if it fails.

    Examples
    --------
    >>> import onepos
    >>> from onepos.testing import yield_onepos_checks
    >>> names = [name for name, _ in yield_onepos_checks(onepos.FrequencyClassifier())]
    >>> names[:2]
    ['check_indicator_input', 'check_label_names']
    """
    for module in (_labels, _contract, _bad_input):
        for check in module.CHECKS:
            if check is not _labels.check_rows_without_positive or not estimator._y_is_full:
                yield check.__name__, check


def check_onepos_estimator(estimator: OnePositiveClassifier) -> None:
    """Run all of them on an unfitted estimator; the first failure is raised with the name of its check.

    Examples
    --------
    >>> import onepos
    >>> from onepos.testing import check_onepos_estimator
    >>> check_onepos_estimator(onepos.FrequencyClassifier())
    """
    for name, check in yield_onepos_checks(estimator):
        try:
            check(estimator)
        except Exception as error:
            raise AssertionError(f"{type(estimator).__name__} fails {name}: {error}") from error

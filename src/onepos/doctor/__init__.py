"""The doctor looks at data before anything is fitted: :func:`diagnose` and :func:`estimate_cardinality`."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from onepos.doctor.cardinality import CardinalityEstimate, cardinality_of, check_cardinality, estimate_cardinality
from onepos.doctor.columns import check_columns, check_scale
from onepos.doctor.data import Table, Tags, read_table, read_tags
from onepos.doctor.diagnosis import CODES, LEVELS, Diagnosis, Finding, Interface, Seen, Summary, name_of, worded
from onepos.doctor.guess import check_leaks, find_leaks, guess_tags
from onepos.doctor.labels import check_ids, check_index, check_labels, check_split_labels
from onepos.doctor.rows import check_rows, check_split_columns, check_split_rows, check_texts

__all__ = ["CODES", "CardinalityEstimate", "Diagnosis", "Finding", "Summary", "diagnose", "estimate_cardinality"]


def diagnose(
    features: Any,
    tags: Any,
    *,
    text: Any = None,
    ids: Any = None,
    test: tuple[Any, Any] | None = None,
    interface: Interface = "python",
) -> Diagnosis:
    """Look for what commonly goes wrong with one observed label per row, before anything is fitted.

    Nothing is changed and nothing is printed. Checks that need many pairs of rows look at a sample, always the same
    one. Codes, thresholds and remedies are listed in docs/doctor.md.

    Parameters
    ----------
    features : DataFrame, 2-D array or sparse matrix of shape (n_rows, n_columns)
    tags : Series (or 1-D array) of shape (n_rows,), or indicator of shape (n_rows, n_labels)
        One tag per row, possibly missing; or 1 observed, 0 unknown, −1 known absent. Rows are matched by position.
    text : str or list of str, optional
        Columns that hold texts.
    ids : Series (or 1-D array) of shape (n_rows,), optional
        What names the rows.
    test : pair (features, tags), optional
        Test rows; ``tags`` may be None.
    interface : {"python", "command line"}
        Whether advice names the parameters of ``TableModel`` or the options of ``onepos fit``.

    Raises
    ------
    ValueError
        If there is no row or column, names of columns or labels repeat, features and tags differ in length, an
        indicator holds other values, or ``text`` is no column.

    Examples
    --------
    >>> import pandas as pd
    >>> photos = pd.DataFrame({"width": [3, 4, 5, 6], "unit": ["cm"] * 4})
    >>> diagnosis = diagnose(photos, pd.Series(["beach", "Beach", "city", None]))
    >>> sorted(finding.code for finding in diagnosis.findings)
    ['column-constant', 'label-rare', 'label-spelling', 'tag-missing']
    >>> diagnosis.worst
    'warning'
    """
    table = read_table(features, text)
    read = read_tags(tags, table.n_rows)
    leaks = find_leaks(table, read)
    guess = guess_tags(table, read, leaks)
    sights = [
        *check_index(features, tags),
        *check_ids(ids),
        *check_labels(read),
        *check_columns(table, read),
        *check_leaks(leaks),
        *check_scale(table),
        *check_rows(table, read),
        *(check_texts(table) if test is None else _across(table, read, test)),
        *check_cardinality(cardinality_of(table, read, guess), guess),
    ]
    findings = sorted((worded(sight, interface) for sight in sights), key=lambda finding: -LEVELS.index(finding.level))
    return Diagnosis(_summary(table, read), tuple(findings))


def _across(table: Table, tags: Tags, test: tuple[Any, Any]) -> Iterator[Seen]:
    """Compare training with test."""
    if not isinstance(test, tuple) or len(test) != 2:
        raise ValueError(f"test must be a pair (features, tags); got {type(test).__name__}.")
    features, test_tags = test
    other = read_table(features, role="test features")
    if mismatch := list(check_split_columns(table, other)):
        yield from (*mismatch, *check_texts(table))
    else:
        texts = [other.columns[other.names.index(column.name)] for column in table.texts]
        yield from (*check_split_rows(table, other), *check_texts(table, texts))
    if test_tags is not None:
        yield from check_split_labels(tags, read_tags(test_tags, other.n_rows, role="test tags"))


def _summary(table: Table, tags: Tags) -> Summary:
    order = np.argsort(-tags.counts, kind="stable")
    counts = tuple((name_of(tags.names[j]), int(tags.counts[j])) for j in order)
    missing = int((tags.per_row == 0).sum())
    columns = sorted(table.columns if table.named else (), key=lambda column: not column.choice.reason)
    became = tuple((name_of(column.name), column.choice.describe()) for column in columns)
    kinds = Counter(column.kind for column in table.columns) if table.matrix is None else {"sparse": len(table.names)}
    return Summary(table.n_rows, dict(kinds), len(tags.names), missing, counts, became)

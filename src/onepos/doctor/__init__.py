"""The doctor looks at data before anything is fitted: :func:`diagnose` and :func:`estimate_cardinality`."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from onepos.doctor.cardinality import (
    CardinalityEstimate,
    cardinality_of,
    check_guesses,
    estimate_cardinality,
    guess_tags,
)
from onepos.doctor.columns import check_columns, check_rows, find_leaks, read_columns
from onepos.doctor.diagnosis import CODES, LEVELS, Diagnosis, Finding, Summary, name_of
from onepos.doctor.labels import check_ids, check_index, check_labels, read_tags

__all__ = ["CODES", "CardinalityEstimate", "Diagnosis", "Finding", "Summary", "diagnose", "estimate_cardinality"]


def diagnose(features: Any, tags: Any, *, text: Any = None, ids: Any = None) -> Diagnosis:
    """Look for what commonly goes wrong with one observed label per row, before anything is fitted.

    Nothing is changed and nothing is printed. Checks that need many pairs of rows look at a sample, always the same
    one. Codes, thresholds and remedies are listed in docs/doctor.md.

    Parameters
    ----------
    features : DataFrame or 2-D array of shape (n_rows, n_columns)
    tags : Series (or 1-D array) of shape (n_rows,), or indicator of shape (n_rows, n_labels)
        One tag per row, possibly missing; or 1 observed, 0 unknown, −1 known absent. Rows are matched by position.
    text : str or list of str, optional
        Columns that hold texts.
    ids : Series (or 1-D array) of shape (n_rows,), optional
        What names the rows.

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
    columns = read_columns(features, text)
    n_rows = len(columns[0].codes)
    read = read_tags(tags, n_rows)
    leaks = find_leaks(columns, read)
    guess = guess_tags(columns, read, leaks)
    findings = [
        *check_index(features, tags),
        *check_ids(ids),
        *check_labels(read),
        *check_columns(columns, leaks),
        *check_rows(columns, read),
        *check_guesses(guess, cardinality_of(columns, read, guess)),
    ]
    order = np.argsort(-read.counts, kind="stable")
    named = columns if isinstance(features, pd.DataFrame | pd.Series) else []
    summary = Summary(
        rows=n_rows,
        columns=dict(Counter(column.kind for column in columns)),
        labels=len(read.names),
        tags_missing=int((read.per_row == 0).sum()),
        label_counts=tuple((name_of(read.names[j]), int(read.counts[j])) for j in order),
        became=tuple((name_of(one.name), one.choice.describe()) for one in sorted(named, key=lambda one: one.is_used)),
    )
    return Diagnosis(summary, tuple(sorted(findings, key=lambda finding: -LEVELS.index(finding.level))))

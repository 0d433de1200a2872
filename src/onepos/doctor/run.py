"""All checks in one call, and what to do about each finding in the words of the interface that asked."""

import json
import shlex
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from onepos.doctor.cardinality import (
    FEWEST_GROUPS,
    agreements,
    cardinality_of,
    check_cardinality,
    check_exclusivity,
)
from onepos.doctor.columns import check_columns, check_texts
from onepos.doctor.data import Table, Tags, read_table, read_tags
from onepos.doctor.diagnosis import LEVELS, Diagnosis, Finding, Summary, name_of
from onepos.doctor.guess import check_leaks, find_leaks, guess_tags
from onepos.doctor.labels import check_index, check_labels, check_split_labels
from onepos.doctor.rows import check_rows, check_split_columns, check_split_rows
from onepos.doctor.scale import check_scale

Interface: TypeAlias = Literal["python", "command line"]


class _Advice(NamedTuple):
    """A sentence with a place for an option, the option's name, and its value; None: the columns found."""

    sentence: str
    option: str
    value: str | None = None


_DROP = _Advice("Drop it: {option}.", "drop")
_ADVICE = {
    "column-empty": _DROP,
    "column-constant": _DROP,
    "column-duplicate": _Advice("Drop the copies: {option}.", "drop"),
    "column-id": _Advice("Drop it ({option}): a model can only learn the order of the rows from it.", "drop"),
    "column-leaks": _Advice("Drop it ({option}), unless you are sure that it is there when you predict.", "drop"),
    "column-named-like-label": _Advice("If so, drop it: {option}. If not, rename it.", "drop"),
    "column-text": _Advice("Name it as text, and its words are used: {option}.", "text"),
    "scale-integer-codes": _Advice("If so: {option}. If they count or rank something, leave them.", "categories"),
    "tag-holds-several": _Advice(
        "If a cell can hold several tags, say what separates them: {option}.", "separator", '";"'
    ),
    "labels-exclusive": _Advice(
        "If they do exclude each other: {option}, or an ordinary classifier.", "n_positives", "1"
    ),
    "cardinality-estimate": _Advice("If you know the mean number of labels per row: {option}.", "n_positives", "M"),
}
#: Columns that an option names.
_MOST = 5


def with_advice(finding: Finding, interface: Interface) -> Finding:
    """Return the finding with what to do about it at the end of its detail.

    Examples
    --------
    >>> seen = Finding("warning", "column-text", "Text that is not used as such", "In 1 column: prose.", ("caption",))
    >>> with_advice(seen, "python").detail
    'In 1 column: prose. Name it as text, and its words are used: text="caption".'
    >>> with_advice(seen, "command line").detail
    'In 1 column: prose. Name it as text, and its words are used: --text caption.'
    """
    advice = _ADVICE.get(finding.code)
    if advice is None:
        return finding
    names = [*finding.about[:_MOST], *(["…"] if len(finding.about) > _MOST else [])]
    option = (_python if interface == "python" else _shell)(advice, names)
    return replace(finding, detail=f"{finding.detail} {advice.sentence.format(option=option)}")


def _python(advice: _Advice, names: list[str]) -> str:
    quoted = [json.dumps(name, ensure_ascii=False) for name in names]
    value = quoted[0] if len(quoted) == 1 and advice.option == "text" else f"[{', '.join(quoted)}]"
    return f"{advice.option}={value if advice.value is None else advice.value}"


def _shell(advice: _Advice, names: list[str]) -> str:
    value = shlex.quote(",".join(names)) if advice.value is None else advice.value
    return f"--{advice.option.replace('_', '-')} {value}"


#: Identical rows that agree in fewer than this share of pairs contradict the suspicion that labels are exclusive.
_AGREE = 0.9


def diagnose(
    features: Any,
    tags: Any,
    *,
    text: Hashable | None = None,
    test: tuple[Any, Any] | None = None,
    interface: Interface = "python",
) -> Diagnosis:
    """Look for what commonly goes wrong with one observed label per row, before anything is fitted.

    Nothing is changed and nothing is printed. Checks that need many pairs of rows look at a sample, always the same
    one. Codes, thresholds and remedies are listed in docs/doctor.md.

    Parameters
    ----------
    features : DataFrame, 2-D array or sparse matrix of shape (n_rows, n_columns)
        Columns of any type; missing values are allowed.
    tags : Series (or 1-D array) of shape (n_rows,), or indicator of shape (n_rows, n_labels)
        One tag per row, possibly missing; or 1 observed, 0 unknown, −1 known absent. Rows are matched by position.
    text : str, optional
        Name of the column that holds texts.
    test : pair (features, tags), optional
        Test rows; ``tags`` may be None.
    interface : {"python", "command line"}
        Whether advice names the parameters of ``TableModel`` or the options of ``onepos fit``.

    Returns
    -------
    Diagnosis
        With ``summary``, ``findings`` and ``worst``; ``to_text()``, ``to_dict()``.

    Raises
    ------
    ValueError
        If there is no row or column, names of columns or labels repeat, features and tags differ in length, an
        indicator holds other values, or ``text`` is no column.

    Examples
    --------
    >>> import pandas as pd
    >>> photos = pd.DataFrame({"width": [3, 4, 5, 6], "unit": ["cm"] * 4})
    >>> found = diagnose(photos, pd.Series(["beach", "Beach", "city", None]))
    >>> sorted(finding.code for finding in found.findings)
    ['column-constant', 'label-rare', 'label-spelling', 'tag-missing']
    >>> found.worst
    'warning'
    """
    table = read_table(features, text)
    read = read_tags(tags, table.n_rows)
    leaks = find_leaks(table, read)
    findings = [
        *check_index(features, tags),
        *check_labels(read),
        *check_columns(table, read),
        *check_leaks(leaks),
    ]
    findings += [*check_scale(table), *check_rows(table, read)]
    findings += _across(table, read, test) if test is not None else check_texts(table)
    guess = guess_tags(table, read, leaks)
    agreement, weight = agreements(table, read)
    disagree = len(agreement) >= FEWEST_GROUPS and bool(np.average(agreement, weights=weight) < _AGREE)
    findings += check_exclusivity(guess, disagree=disagree)
    findings += check_cardinality(cardinality_of(table, read, guess))
    advised = [with_advice(finding, interface) for finding in findings]
    return Diagnosis(_summary(table, read), tuple(sorted(advised, key=lambda finding: -LEVELS.index(finding.level))))


def _across(table: Table, tags: Tags, test: tuple[Any, Any]) -> list[Finding]:
    """Compare training with test."""
    if not isinstance(test, tuple) or len(test) != 2:
        raise ValueError(f"test must be a pair (features, tags); got {type(test).__name__}.")
    features, test_tags = test
    other = read_table(features, None, role="test features")
    findings = check_split_columns(table, other)
    if not findings:
        other = read_table(features, table.text, role="test features") if table.text is not None else other
        findings = [*check_split_rows(table, other), *check_texts(table, other)]
    else:
        findings += check_texts(table)
    if test_tags is not None:
        findings += check_split_labels(tags, read_tags(test_tags, other.n_rows, role="test tags"))
    return findings


def _summary(table: Table, tags: Tags) -> Summary:
    order = np.argsort(-tags.counts, kind="stable")
    counts = tuple((name_of(tags.names[j]), int(tags.counts[j])) for j in order)
    missing = int((tags.per_row == 0).sum())
    return Summary(table.n_rows, dict(Counter(table.kinds)), len(tags.names), missing, counts)

"""Checks of the rows: empty ones, identical ones, and those that training and test share."""

import numpy as np
from numpy.typing import NDArray

from onepos.doctor.data import Table, Tags, by_chance, code_keys, codes_in, groups_of, matrix_keys
from onepos.doctor.diagnosis import Finding, counted, finding, listed

#: Repeated rows are a warning above this share, a note below.
REPEATED_SHARE = 0.01


def check_rows(table: Table, tags: Tags) -> list[Finding]:
    """Look for rows without content and rows with identical features.

    Warning: rows in which everything is zero, missing or blank. Identical rows (the empty ones aside): a note, a
    warning if more than 1 % of the rows repeat another one. Identical rows with different tags: a note, because with
    one observed label per row this is what several true labels look like.
    """
    found = []
    empty = table.empty_rows()
    if empty.any():
        detail = (
            f"Nothing but zeros, missing entries or blanks in {counted(int(empty.sum()), 'row')}. Drop such rows, or "
            "find out why they are empty."
        )
        found.append(finding("row-empty", "warning", detail))
    group, size = groups_of(table.row_keys()[~empty])
    repeats = int((size - 1).sum())
    if repeats:
        share = repeats / table.n_rows
        chance = chance_duplicates(table, size)
        detail = f"The same features as in an earlier row in {counted(repeats, 'row')} ({share:.1%}). " + (
            "The columns are so coarse that rows coincide by chance; nothing needs to be done."
            if chance
            else "Drop copies of one record; keep repeated observations of one thing, all on the same side of a split."
        )
        found.append(finding("row-duplicate", "warning" if share > REPEATED_SHARE and not chance else "note", detail))
        found += _disagreement(group, tags.codes[~empty])
    return found


def chance_duplicates(table: Table, size: NDArray[np.int64]) -> bool:
    """Whether identical rows are no surprise, given the groups' sizes; of sparse matrices, never."""
    pairs = float((size * (size - 1.0)).sum() / 2)
    return table.matrix is None and by_chance(table.columns, table.n_rows, pairs)


def _disagreement(group: NDArray[np.int64], codes: NDArray[np.int64]) -> list[Finding]:
    """Groups of identical rows with at least two tags, of which two differ."""
    group, codes = group[codes >= 0], codes[codes >= 0]
    if not group.size:
        return []
    sizes = np.bincount(group)
    distinct = np.bincount(np.unique(np.stack([group, codes]), axis=1)[0], minlength=len(sizes))
    several, differ = int((sizes > 1).sum()), int((distinct > 1).sum())
    if not differ:
        return []
    detail = (
        f"Different tags in {differ:,} of {counted(several, 'group')} of identical rows. If tags are correct, "
        "such rows have several labels, which is what onepos is for; else look for errors in the tags. The pairs "
        "also bound the number of labels per row: see cardinality-estimate."
    )
    return [finding("row-duplicate-disagrees", "note", detail)]


def check_split_columns(table: Table, test: Table) -> list[Finding]:
    """Compare the columns of training and test by name (of sparse matrices, by number)."""
    known, other = set(table.names), set(test.names)
    if known == other and (table.matrix is None) == (test.matrix is None):
        return []
    lacking, extra = [n for n in table.names if n not in other], [n for n in test.names if n not in known]
    differences = [f"Not in test: {counted(len(lacking), 'column')} of training ({listed(lacking)})"] if lacking else []
    differences += [f"Not in training: {counted(len(extra), 'column')} of test ({listed(extra)})"] if extra else []
    said = "; ".join(differences) or "One of the two is sparse, the other is not"
    detail = f"{said}. Rows were not compared across the split. Give both the same columns."
    return [finding("column-split-mismatch", "error", detail, [*lacking, *extra])]


def check_split_rows(table: Table, test: Table) -> list[Finding]:
    """Test rows whose features a training row has too, rows without content aside; the columns must be the same.

    A warning, or a note if rows coincide by chance because the columns are coarse.
    """
    if table.matrix is not None:
        keys, test_keys = matrix_keys(table.matrix), matrix_keys(test.matrix)
    else:
        of_test = {column.name: column for column in test.columns}
        keys = table.row_keys()
        test_keys = code_keys([codes_in(column, of_test[column.name]) for column in table.columns], test.n_rows)
    shared = int((np.isin(test_keys, keys) & ~test.empty_rows()).sum())
    if not shared:
        return []
    chance = table.matrix is None and by_chance(table.columns, table.n_rows, shared * table.n_rows / test.n_rows)
    detail = (
        f"The features of a training row in {shared:,} of {counted(test.n_rows, 'test row')}. "
        + ("The columns are so coarse that rows coincide by chance. " if chance else "")
        + "Results on them flatter. Split by group, so that copies stay together."
    )
    return [finding("row-in-both-splits", "note" if chance else "warning", detail)]

"""Columns that give the tag away: each alone predicts it, on rows that were held out."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.doctor.data import Column, Table, Tags
from onepos.doctor.diagnosis import Finding, counted, finding, listed

#: Held-out accuracy of one column from which on it gives the tag away …
ACCURACY = 0.98
#: … if it also closes this share of the distance between the most frequent label and certainty.
SKILL = 0.95
#: Fewest held-out rows, and fewest held-out rows of one label, from which to conclude.
HELD_OUT, HELD_OUT_LABEL = 50, 10
#: Rows to look at.
SAMPLE = 5000


def check_leaks(leaks: dict[Hashable, float]) -> list[Finding]:
    """Report the columns of :func:`find_leaks`, in a warning."""
    if not leaks:
        return []
    shown = ", ".join(f"{listed([name])} {share:.1%}" for name, share in list(leaks.items())[:5])
    detail = (
        f"The tag, or whether it is one certain label, follows from {counted(len(leaks), 'column')} alone on held-out "
        f"rows ({shown} right). Such a column is often made from the tag, or known only after it."
    )
    return [finding("column-leaks", "warning", detail, leaks)]


def find_leaks(table: Table, tags: Tags) -> dict[Hashable, float]:
    """Predict the tag from each column alone; return the columns that do it, each with its held-out accuracy.

    Half of up to 5,000 tagged rows say which tag goes with which value (the nearest value, for numbers); the other half
    is predicted. So a column with a value per row earns nothing by chance. Flagged: at least 98 % right and at least
    95 % of the errors of the most frequent label avoided, on 50 held-out rows or more; or, for columns of two
    values, one label found with precision and recall of at least 98 % on ten held-out rows of it or more. Sparse
    matrices are not looked at.
    """
    rows = np.flatnonzero(tags.single)
    if len(rows) < 2 * HELD_OUT or (tags.counts > 0).sum() < 2:
        return {}
    rows = np.random.default_rng(0).permutation(rows)[:SAMPLE]
    half = len(rows) // 2
    learn, hold = rows[:half], rows[half:]
    leaks: dict[Hashable, float] = {}
    for column in table.columns:
        guess = _predict(column, learn, hold, tags.codes)
        truth = tags.codes[hold]
        accuracy = float((guess == truth).mean())
        frequent = float(np.bincount(truth).max() / len(truth))
        if accuracy >= ACCURACY and accuracy - frequent >= SKILL * (1 - frequent) and frequent < 1:
            leaks[column.name] = accuracy
        elif len(column.distinct) == 2 and (share := _tells_one_label(column.codes[hold], truth)):
            leaks[column.name] = share
    return leaks


def _predict(column: Column, learn: Any, hold: Any, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent tag of the held-out row's value among the learning rows."""
    fallback = int(np.bincount(codes[learn]).argmax())
    if column.values is None or (column.codes[learn] < 0).all():
        keys, group = np.unique(column.codes[learn], return_inverse=True)
        best = _majority(group, codes[learn], len(keys))
        place = np.minimum(np.searchsorted(keys, column.codes[hold]), len(keys) - 1)
        return np.where(keys[place] == column.codes[hold], best[place], fallback)
    known = column.codes[learn] >= 0
    numbers, group = np.unique(column.values[learn][known], return_inverse=True)
    best = _majority(group, codes[learn][known], len(numbers))
    asked = column.values[hold]
    right = np.minimum(np.searchsorted(numbers, asked), len(numbers) - 1)
    left = np.maximum(right - 1, 0)
    with np.errstate(all="ignore"):  # infinite values and differences beyond float64 fall to the right neighbour
        nearest = np.where(np.abs(asked - numbers[left]) < np.abs(numbers[right] - asked), left, right)
    return np.where(column.codes[hold] >= 0, best[nearest], fallback)


def _majority(group: NDArray[Any], codes: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    n_labels = int(codes.max()) + 1
    pairs, counts = np.unique(group.ravel() * n_labels + codes, return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]  # the last write wins: the most frequent tag of each group
    best = np.zeros(n_groups, dtype=np.int64)
    best[pairs // n_labels] = pairs % n_labels
    return best


def _tells_one_label(value: NDArray[np.int64], truth: NDArray[np.int64]) -> float | None:
    """Return the smaller of precision and recall if one of the two values stands for one label."""
    counts = np.bincount(truth)
    known = (counts >= HELD_OUT_LABEL) & (counts < len(truth))
    best = 0.0
    for one in (0, 1):
        both = np.bincount(truth[value == one], minlength=len(counts))
        share = both / np.maximum(np.maximum(counts, int((value == one).sum())), 1)
        best = max(best, float(share[known].max(initial=0.0)))
    return best if best >= ACCURACY else None

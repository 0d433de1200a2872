"""How well a tag can be guessed: from one column alone, which then leaks it, or from the tags of other rows."""

import warnings
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from onepos.doctor.columns import is_id
from onepos.doctor.data import Column, Table, Tags
from onepos.doctor.diagnosis import Seen, counted, name_of, seen
from onepos.doctor.rows import chance_duplicates, comparable_rows, groups_of
from onepos.exceptions import DataFileError
from onepos.table import ColumnEncoder
from onepos.table.kinds import NUMBER, WRITTEN

LEAK_ACCURACY = 0.98  # Held-out accuracy of one column from which on it gives the tag away
LEAK_SKILL = 0.95  # Share of the way from the most frequent label to certainty that it must also close
LEAK_ROWS, LEAK_LABEL_ROWS = 50, 10  # Fewest held-out rows, in all and of one label, from which to conclude
LEAK_SAMPLE = 5000  # Rows to look at
CUT = 5.0  # Standardised values beyond this are cut: one outlier must not decide a distance
REFERENCE, QUERIES, VOTERS, MODEL_ROWS = 10_000, 2_000, 15, 3_000  # Rows to learn from, to guess, to vote, to fit
FEWEST_ROWS = 50  # Fewest rows from which to conclude anything
#: The reference holds at most so many numbers; the multinomial model is fitted up to so many products per step.
MOST_ENTRIES, MOST_PRODUCTS = 40_000_000, 20_000_000


def check_leaks(leaks: dict[Hashable, float]) -> Iterator[Seen]:
    """Report the columns of :func:`find_leaks`."""
    if leaks:
        shown = ", ".join(f"{name_of(name)} {share:.1%}" for name, share in list(leaks.items())[:5])
        yield seen("column-leaks", leaks, found=counted(len(leaks), "column"), shown=shown)


def find_leaks(table: Table, tags: Tags) -> dict[Hashable, float]:
    """Predict the tag from each column alone; return the columns that do it, each with its held-out accuracy.

    Half of up to 5,000 tagged rows say which tag goes with which value (the nearest value, for numbers); the other half
    is predicted. So a column with a value per row earns nothing by chance. docs/doctor.md says what is flagged. Sparse
    matrices are not looked at.
    """
    rows = np.flatnonzero(tags.codes >= 0)
    if len(rows) < 2 * LEAK_ROWS or (tags.counts > 0).sum() < 2:
        return {}
    rows = np.random.default_rng(0).permutation(rows)[:LEAK_SAMPLE]
    learn, hold = np.split(rows, [len(rows) // 2])
    truth, leaks = tags.codes[hold], dict[Hashable, float]()
    frequent = float(np.bincount(truth).max() / len(truth))
    for column in table.columns:
        if column.choice.reason == WRITTEN:
            continue
        accuracy = float((_predict(column, learn, hold, tags.codes) == truth).mean())
        if accuracy >= LEAK_ACCURACY and accuracy - frequent >= LEAK_SKILL * (1 - frequent) and frequent < 1:
            leaks[column.name] = accuracy
        elif len(column.distinct) == 2 and (share := _tells_one_label(column.codes[hold], truth)):
            leaks[column.name] = share
    return leaks


def _predict(column: Column, learn: Any, hold: Any, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent tag of each held-out row's value, or of the nearest number, among the learning rows."""
    numeric = column.values is not None and bool((column.codes[learn] >= 0).any())
    values: Any = column.values if numeric else column.codes
    known = learn[column.codes[learn] >= 0] if numeric else learn
    pairs = pd.DataFrame({"value": values[known], "tag": codes[known]}).value_counts().index.to_frame(index=False)
    best = pairs.drop_duplicates("value").sort_values("value")
    seen_values, tags, asked = best["value"].to_numpy(), best["tag"].to_numpy(), values[hold]
    right = np.minimum(np.searchsorted(seen_values, asked), len(seen_values) - 1)
    left = np.maximum(right - 1, 0)
    with np.errstate(all="ignore"):  # infinite values and differences beyond float64 fall to the right neighbour
        place = np.where(np.abs(asked - seen_values[left]) < np.abs(seen_values[right] - asked), left, right)
    answered = column.codes[hold] >= 0 if numeric else seen_values[place] == asked
    return np.where(answered, tags[place], np.bincount(codes[learn]).argmax())


def _tells_one_label(value: NDArray[np.int64], truth: NDArray[np.int64]) -> float | None:
    """Return the smaller of precision and recall if one of the two values stands for one label."""
    counts = np.bincount(truth)
    known = (counts >= LEAK_LABEL_ROWS) & (counts < len(truth))
    best = 0.0
    for one in (0, 1):
        both = np.bincount(truth[value == one], minlength=len(counts))
        share = both / np.maximum(np.maximum(counts, int((value == one).sum())), 1)
        best = max(best, float(share[known].max(initial=0.0)))
    return best if best >= LEAK_ACCURACY else None


@dataclass(frozen=True, eq=False)
class Guess:
    """Guesses of tags, none of which has seen the row's own tag; arrays of shape (n_queries,)."""

    nearest: NDArray[np.bool_]  # Whether the nearest other row has the same tag.
    vote: NDArray[np.bool_]  # Whether the vote of 15 neighbours is the tag.
    right: NDArray[np.bool_]  # Whether the mean of the vote and a cross-validated multinomial model has the tag on top.
    confidence: NDArray[np.float64]  # That mean for its top label.
    frequent: float  # Share of the queries that the most frequent label gets right.
    edge: NDArray[np.float64]  # That mean for the row's own tag, less what a random row's tag would get.


def guess_tags(table: Table, tags: Tags, leaks: Collection[Hashable]) -> Guess | None:
    """Guess tags of up to 2,000 rows; None if rows or labels are too few.

    Rows without content are left out. Of identical rows one is kept, unless they coincide by chance: the copy of a
    record carries its tag, which says nothing about the row's other labels. Columns that leak or identify are left
    out too.
    """
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero(comparable_rows(table, tags)))
    group, size = groups_of(table, rows)
    if len(rows) and not chance_duplicates(table, size):
        rows = rows[np.sort(np.unique(group, return_index=True)[1])]
    rows = rows[: max(FEWEST_ROWS, min(REFERENCE, MOST_ENTRIES // len(table.names)))]
    labels, codes = np.unique(tags.codes[rows], return_inverse=True)
    n_labels = len(labels)
    if len(rows) < FEWEST_ROWS or not 2 <= n_labels <= len(rows) / 2:
        return None
    X = _vectors(table, rows, {*leaks, *(column.name for column in table.columns if is_id(column, table))})
    if X is None:
        return None
    n = min(QUERIES, len(rows))
    truth, everyone = codes[:n], np.arange(n)
    neighbours = _neighbours(X, n)
    votes = np.zeros((n, n_labels))
    np.add.at(votes, (everyone[:, None], codes[neighbours]), 1.0 / VOTERS)
    share = votes if (model := _multinomial(X, codes, n, n_labels)) is None else (votes + model) / 2
    frequency = np.bincount(codes, minlength=n_labels) / len(codes)
    return Guess(
        nearest=codes[neighbours[:, 0]] == truth,
        vote=votes.argmax(axis=1) == truth,
        right=share.argmax(axis=1) == truth,
        confidence=share.max(axis=1),
        frequent=float((truth == frequency.argmax()).mean()),
        edge=share[everyone, truth] - share @ frequency,
    )


def _neighbours(X: Any, n: int) -> NDArray[np.int64]:
    """Return the 15 nearest other rows of each of the first n rows."""
    search = NearestNeighbors(n_neighbors=VOTERS + 1, algorithm="brute").fit(X)
    near = search.kneighbors(X[:n], return_distance=False)
    # Among rows at distance zero, the row itself may come later or be missing.
    other = near != np.arange(n)[:, None]
    other[other.all(axis=1), -1] = False
    return np.asarray(near[other].reshape(n, VOTERS), dtype=np.int64)


def _multinomial(X: Any, codes: NDArray[np.int64], n: int, n_labels: int) -> NDArray[np.float64] | None:
    """Probabilities of the first n rows from three-fold cross-validation; None if that would take long."""
    m = min(MODEL_ROWS, len(codes))
    entries = X[:m].nnz if hasattr(X, "nnz") else m * X.shape[1]
    if (entries + X.shape[1]) * n_labels > MOST_PRODUCTS:
        return None
    probabilities = np.zeros((n, n_labels))
    fold = np.arange(m) % 3
    for part in range(3):
        learn, hold = np.flatnonzero(fold != part), np.flatnonzero(fold[:n] == part)
        if not 2 <= len(np.unique(codes[learn])) <= len(learn) / 2:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a rough fit is a fair guess too
            model = LogisticRegression(C=0.1, max_iter=50).fit(X[learn], codes[learn])
        probabilities[np.ix_(hold, model.classes_)] = model.predict_proba(X[hold])
    return probabilities


def _vectors(table: Table, rows: NDArray[np.int64], without: Collection[Hashable]) -> Any:
    """Return rows as float32 vectors, dense or CSR, in the features of ``fit``; None if no column can be used."""
    if table.matrix is not None:
        part = table.matrix[rows].astype(np.float32)
        part.data[~np.isfinite(part.data)] = 0.0
        return normalize(part)
    places = {str(j): column for j, column in enumerate(table.columns)}
    frame = table.frame.iloc[rows].copy()
    for place, column in places.items():
        if column.kind == NUMBER and column.values is not None:
            frame[place] = np.where(np.isfinite(column.values[rows]), column.values[rows], np.nan)
    drop = [place for place, column in places.items() if column.name in without or column.choice.reason]
    texts = [place for place, column in places.items() if column in table.texts and place not in drop]
    for text, more in ((texts, []), ([], texts)):  # once more without texts, if they hold no usable words
        try:
            with np.errstate(all="ignore"):
                X = ColumnEncoder(text=text, drop=[*drop, *more]).fit(frame).transform(frame)
        except DataFileError:
            continue
        values = X.data if sparse.issparse(X) else X
        np.clip(np.nan_to_num(values, copy=False), -CUT, CUT, out=values)
        return X
    return None

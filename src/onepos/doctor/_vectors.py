"""Rows as vectors whose distances mean something, for the checks that need neighbours."""

from collections.abc import Collection, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize

from onepos.doctor._column import Column
from onepos.doctor._table import Table
from onepos.doctor.texts import text_column, texts_of

#: Columns with more categories than this say little about distance.
MOST_CATEGORIES = 50
#: Standardised values beyond this are cut: one outlier must not be all that a distance sees.
CUT = 5.0


def vectors(table: Table, rows: NDArray[np.int64], without: Collection[Hashable] = ()) -> Any:
    """Return rows as float32 vectors, dense or CSR; None if no column can be used.

    Numbers are standardised, missing ones become the median, columns of zeros and ones stay; categories become one
    column each. Two rows that differ in one column then are about √2 apart, whatever its kind. The text becomes
    tf-idf with as much weight as all columns together. Rows of a sparse matrix get length 1.
    """
    if table.matrix is not None:
        part = table.matrix[rows].astype(np.float32)
        part.data[~np.isfinite(part.data)] = 0.0
        return normalize(part)
    used = [column for column in table.columns if column.name not in without and column.name != table.text]
    blocks = [block for column in used if (block := _block(column, rows)) is not None]
    dense = np.concatenate(blocks, axis=1, dtype=np.float32) if blocks else None
    text = text_column(table)
    if text is None or text.name in without:
        return dense
    words = _words(texts_of(text)[rows]) * np.float32(np.sqrt(max(len(blocks), 1)))
    return words if dense is None else sparse.hstack([words, sparse.csr_array(dense)], format="csr")


def _block(column: Column, rows: NDArray[np.int64]) -> Any:
    if column.binary and column.missing == 0 and column.values is not None:
        return (column.values[rows, None] * np.sqrt(2.0)).astype(np.float32)
    if column.values is not None:
        return _standardised(column.values[rows])
    if column.kind == "categorical" and 1 < len(column.distinct) <= MOST_CATEGORIES:
        return (column.codes[rows, None] == np.arange(len(column.distinct))).astype(np.float32)
    return None


def _standardised(values: NDArray[np.float64]) -> Any:
    finite = np.isfinite(values)
    if not finite.any():
        return None
    largest = np.abs(values[finite]).max()
    scaled = np.where(finite, values, np.median(values[finite] / max(largest, 1e-300)) * largest) / max(largest, 1e-300)
    scaled -= scaled.mean()
    deviation = scaled.std()
    if not deviation > 1e-12:
        return None
    return np.clip(scaled / deviation, -CUT, CUT).astype(np.float32)[:, None]


def _words(texts: NDArray[Any]) -> Any:
    counts = HashingVectorizer(n_features=1 << 16, alternate_sign=False, norm=None, dtype=np.float32).transform(texts)
    # A word of one text brings no two texts closer; without words the first place stays, so that there is a column.
    shared = np.bincount(counts.indices, minlength=counts.shape[1]) > 1
    shared[0] = True
    return sparse.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts[:, np.flatnonzero(shared)]))

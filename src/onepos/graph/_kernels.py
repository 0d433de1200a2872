"""Rows of a sparse matrix for a batch, compiled."""

import numpy as np

from onepos._utils.compilation import Array, compiled


@compiled
def take_rows(
    starts: Array, columns: Array, values: Array, rows: Array, n_columns: int
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return rows of a CSR matrix as offsets, columns and values, then the same of their transpose.

    Indices read from arrays are made unsigned: for signed ones numba checks whether they count from the end.
    """
    n_rows = len(rows)
    offsets = np.empty(n_rows + 1, starts.dtype)
    offsets[0] = 0
    for i in range(n_rows):
        row = np.uint64(rows[i])
        offsets[i + 1] = offsets[i] + starts[row + np.uint64(1)] - starts[row]
    n_stored = offsets[n_rows]
    taken, entries = np.empty(n_stored, columns.dtype), np.empty(n_stored, values.dtype)
    # Shifted by two: first the count of a column, then its next free place, in the end the start of the next column.
    following = np.zeros(n_columns + 2, starts.dtype)
    for i in range(n_rows):
        start, to = np.uint64(starts[rows[i]]), np.uint64(offsets[i])
        for k in range(np.uint64(offsets[i + 1]) - to):
            column = columns[start + k]
            taken[to + k] = column
            entries[to + k] = values[start + k]
            following[np.uint64(column) + np.uint64(2)] += 1
    for column in range(n_columns):
        following[column + 2] += following[column + 1]
    turned_rows, turned_entries = np.empty(n_stored, columns.dtype), np.empty(n_stored, values.dtype)
    for i in range(n_rows):
        for place in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            column = np.uint64(taken[place]) + np.uint64(1)
            to = np.uint64(following[column])
            following[column] += 1
            turned_rows[to] = i
            turned_entries[to] = entries[place]
    return offsets, taken, entries, following[: n_columns + 1], turned_rows, turned_entries

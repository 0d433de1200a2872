"""What the graph network reads for a batch, compiled: the twin of ``onepos.neighborhoods`` and ``SparseRows.take``."""

import numpy as np

from onepos.kernels.compilation import Array, compiled


@compiled
def distinct_rows(table: Array, rows: Array, seen: Array) -> tuple[Array, Array]:
    """The different rows in the lines ``rows`` of ``table``, ascending, and the place of each entry among them.

    ``seen`` has a zero for every row there is, and again afterwards.
    """
    size, width = len(rows), table.shape[1]
    needed = np.empty(size * width, np.int64)
    count = 0
    for i in range(size):
        for j in range(width):
            row = table[rows[i], j]
            if seen[row] == 0:
                seen[row] = 1
                needed[count] = row
                count += 1
    needed = np.sort(needed[:count])
    for place in range(count):
        seen[needed[place]] = place
    places = np.empty((size, width), np.int64)
    for i in range(size):
        for j in range(width):
            places[i, j] = seen[table[rows[i], j]]
    for place in range(count):
        seen[needed[place]] = 0
    return needed, places


@compiled
def links_within(places: Array, n_needed: int) -> Array:
    """A within the batch: a_ij = 1 if row i is among the neighbours of row j."""
    size = places.shape[0]
    own = np.full(n_needed, -1)
    for i in range(size):
        own[places[i, 0]] = i
    linked = np.zeros((size, size), np.float32)
    for j in range(size):
        for k in range(1, places.shape[1]):
            i = own[places[j, k]]
            if i >= 0:
                linked[i, j] = 1
    return linked


@compiled
def take_rows(
    starts: Array, columns: Array, values: Array, rows: Array, n_columns: int
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Rows of a CSR matrix, as offsets, columns and values, and the same of their transpose.

    Places read from arrays are made unsigned: numba looks at every other one, whether it counts from the end.
    """
    n_rows = len(rows)
    offsets = np.empty(n_rows + 1, starts.dtype)
    offsets[0] = 0
    for i in range(n_rows):
        row = np.uint64(rows[i])
        offsets[i + 1] = offsets[i] + starts[row + np.uint64(1)] - starts[row]
    n_stored = offsets[n_rows]
    taken, entries = np.empty(n_stored, columns.dtype), np.empty(n_stored, values.dtype)
    # Two places on: first how often a column occurs, then where it goes on, and in the end where the next one begins.
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

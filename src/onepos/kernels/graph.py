"""What follows the first layer of SMILE's graph network, forwards and backwards, compiled.

The twin of ``onepos.methods.smile.encoder_pass.EncoderPass``. Rows are pooled by their places, without a matrix.
"""

import numpy as np

from onepos.kernels.compilation import Array, Scalar, compiled

Single = np.float32


@compiled
def forwards(
    hidden: Array, bias: Array, places: Array, shares: Array, second: Array, second_bias: Array, bound: Scalar
) -> tuple[Array, Array]:
    """Make X·W₁, in place, the hidden layer; return it pooled, and log α, log β beside each other, bounded."""
    for i in range(hidden.shape[0]):
        for j in range(hidden.shape[1]):
            value = hidden[i, j] + bias[j]
            hidden[i, j] = Single(0.0) if value < 0 else value
    pooled = np.zeros((places.shape[0], hidden.shape[1]), Single)
    for i in range(places.shape[0]):
        for k in range(places.shape[1]):
            place, share = places[i, k], shares[k]
            for j in range(hidden.shape[1]):
                pooled[i, j] += share * hidden[place, j]
    output = np.dot(pooled, second.T)
    for i in range(output.shape[0]):
        for j in range(output.shape[1]):
            value = output[i, j] + second_bias[j]
            value = bound if value > bound else value  # NaN stays
            output[i, j] = -bound if value < -bound else value
    return pooled, output


@compiled
def backwards(
    by_output: Array,
    output: Array,
    bound: Scalar,
    second: Array,
    pooled: Array,
    hidden: Array,
    places: Array,
    shares: Array,
    by_hidden: Array,
) -> tuple[Array, Array, Array]:
    """From the derivative by what ``forwards`` returned: that by X·W₁ + b₁, written; those by b₁, W₂ and b₂."""
    by_raw = np.empty_like(by_output)
    of_second_bias = np.zeros(output.shape[1], Single)
    for i in range(output.shape[0]):
        for j in range(output.shape[1]):
            inside = -bound < output[i, j] < bound
            value = by_output[i, j] if inside else Single(0.0)
            by_raw[i, j] = value
            of_second_bias[j] += value
    by_pooled = np.dot(by_raw, second)
    by_hidden[:] = 0
    for i in range(places.shape[0]):
        for k in range(places.shape[1]):
            place, share = places[i, k], shares[k]
            for j in range(hidden.shape[1]):
                by_hidden[place, j] += share * by_pooled[i, j]
    of_bias = np.zeros(hidden.shape[1], Single)
    for i in range(hidden.shape[0]):
        for j in range(hidden.shape[1]):
            value = by_hidden[i, j] if hidden[i, j] > 0 else Single(0.0)
            by_hidden[i, j] = value
            of_bias[j] += value
    return of_bias, np.dot(by_raw.T, pooled), of_second_bias


# What the graph network reads for a batch, compiled: the twin of ``onepos.graph.neighborhoods`` and
# ``SparseRows.take``.


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

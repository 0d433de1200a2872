"""What follows the first layer of SMILE's graph network, forwards and backwards, compiled.

The twin of ``onepos.encoder_pass.EncoderPass``. Rows are pooled by their places, without a matrix.
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

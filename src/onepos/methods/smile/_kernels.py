"""SMILE's label enhancement in single precision, compiled: Beta draws and T_LE, with their derivatives.

The formulas are those of ``LabelEnhancement.reference_loss``, which automatic differentiation follows; tests compare
the two. Below are, in this order, exponential and logarithm without branches or calls (loops over them become vector
instructions), log Γ and its derivatives, the draws, and T_LE.
"""

import math
from typing import TypeAlias

import numpy as np

from onepos.methods.smile._compilation import Array, Scalar, compiled, inlined

Single = np.float32
Integer = np.int32
#: W₁, b₁, W₂, b₂ of a network of two layers.
Layers: TypeAlias = tuple[Array, ...]

#: Adding it to a number below 2²² puts the nearest integer into the lowest bits.
_ROUNDER = Single(1.5 * 2**23)
_LOWEST, _HIGHEST = Single(-87.0), Single(88.0)
_PER_LOG_2 = Single(1.0 / math.log(2.0))
#: log 2 in two parts, the first short enough that multiples of it are exact.
_LOG_2_SHORT = Single(355 / 512)
_LOG_2_REST = Single(math.log(2.0) - 355 / 512)
_LOG_2 = Single(math.log(2.0))
#: Bits of √½: mantissas are taken from [√½, √2).
_ROOT_OF_HALF = Integer(0x3F3504F3)
_HALF, _ONE, _TWO, _THREE, _SIX, _NINE = (Single(n) for n in (0.5, 1.0, 2.0, 3.0, 6.0, 9.0))
_E3, _E4, _E5, _E6, _E7 = (Single(1.0 / math.factorial(n)) for n in (3, 4, 5, 6, 7))
_L3, _L5, _L7, _L9, _L11, _L13 = (Single(2.0 / n) for n in (3, 5, 7, 9, 11, 13))


@inlined
def exponential(x: Scalar) -> Scalar:
    """eˣ, with x bounded to [−87, 88]: 2ᵏ·eʳ, r at most ½ log 2, eʳ by its series. NaN stays NaN."""
    x = _LOWEST if x < _LOWEST else x
    x = _HIGHEST if x > _HIGHEST else x
    shifted = x * _PER_LOG_2 + _ROUNDER
    k = shifted - _ROUNDER
    r = x - k * _LOG_2_SHORT
    r = r - k * _LOG_2_REST
    series = ((((_E7 * r + _E6) * r + _E5) * r + _E4) * r + _E3) * r + _HALF
    series = (series * r + _ONE) * r + _ONE
    power = np.int32((np.float32(shifted).view(np.int32) + Integer(127)) << Integer(23)).view(np.float32)
    return series * power


@inlined
def logarithm(x: Scalar) -> Scalar:
    """Log x for normal positive x: k·log 2 + 2·artanh((m−1)/(m+1)), x = m·2ᵏ, by its series."""
    bits = np.float32(x).view(np.int32)
    k = (bits - _ROOT_OF_HALF) >> Integer(23)
    m = np.int32(bits - (k << Integer(23))).view(np.float32)
    s = (m - _ONE) / (m + _ONE)
    t = s * s
    return ((((_L9 * t + _L7) * t + _L5) * t + _L3) * t + _TWO) * s + Single(k) * _LOG_2


@inlined
def softplus_and_sigmoid(x: Scalar) -> tuple[Scalar, Scalar]:
    """log(1 + eˣ) and 1/(1 + e⁻ˣ)."""
    small = exponential(-abs(x))  # e to minus |x|, at most 1
    over = _ONE / (_ONE + small)
    s = small / (_TWO + small)  # log(1 + small) = 2·artanh(s), s at most ⅓
    t = s * s
    rest = ((((((_L13 * t + _L11) * t + _L9) * t + _L7) * t + _L5) * t + _L3) * t + _TWO) * s
    return (x if x > 0 else Single(0.0)) + rest, over if x >= 0 else small * over


_HALF_LOG_TAU = Single(0.5 * math.log(2.0 * math.pi))
_G1, _G2, _G3, _G4 = (Single(v) for v in (1 / 12, -1 / 360, 1 / 1260, -1 / 1680))
_D1, _D2, _D3, _D4, _D5 = (Single(v) for v in (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132))
_T1, _T2, _T3, _T4, _T5, _T6 = (Single(v) for v in (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730))


@inlined
def log_gamma_and_slopes(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Log Γ(x), ψ(x), ψ₁(x) for positive x: Stirling's series at x + 3, and the three steps back."""
    second = x + _ONE
    raised = x + _THREE
    pair = x * (x + _TWO)
    product = pair * second
    over = _ONE / product
    by_steps = (_THREE * pair + _TWO) * over
    by_squares = by_steps * by_steps - _SIX * second * over
    inverse = _ONE / raised
    square = inverse * inverse
    log_raised = logarithm(raised)
    log_gamma = (((_G4 * square + _G3) * square + _G2) * square + _G1) * inverse
    log_gamma = log_gamma - logarithm(product) - raised + _HALF_LOG_TAU + (raised - _HALF) * log_raised
    digamma = ((((_D5 * square + _D4) * square + _D3) * square + _D2) * square + _D1) * square
    digamma = log_raised - (digamma + by_steps + _HALF * inverse)
    trigamma = (((((_T6 * square + _T5) * square + _T4) * square + _T3) * square + _T2) * square + _T1) * inverse
    trigamma = (trigamma + _HALF) * square + inverse + by_squares
    return log_gamma, digamma, trigamma


_STEPS_LESS_THIRD = Single(2.0 - 1.0 / 3.0)
_PART = Single(2.0**-32)
#: The lowest positive normal number.
_TINY = Single(np.finfo(np.float32).tiny)


@inlined
def _root(alpha: Scalar, noise: Scalar) -> tuple[Scalar, Scalar]:
    """1 + ε/√(9a−3), and a − ⅓, for the raised shape a."""
    spread = alpha + _STEPS_LESS_THIRD
    return _ONE + noise / np.sqrt(_NINE * spread), spread


@inlined
def wait(bits: Scalar) -> Scalar:
    """−log U for 32 random bits, U in the middle of its 2³²nd part of (0, 1)."""
    return -logarithm((Single(bits) + _HALF) * _PART)


@inlined
def _is_refused(alpha: Scalar, noise: Scalar, wait: Scalar) -> Scalar:
    """Marsaglia and Tsang's test, with −log U = ``wait``. What is NaN is not refused: no other draw would help."""
    root, spread = _root(alpha, noise)
    log_root = logarithm(max(root, _TINY))
    margin = _HALF * noise * noise + spread * (_ONE - root * root * root + _THREE * log_root) + wait
    return margin <= 0 or root <= 0


@compiled
def refused(shapes: Array, noise: Array, bits: Array) -> Array:
    """Places of the draws that are refused."""
    marks = np.empty(len(shapes), np.bool_)
    for i in range(len(shapes)):
        marks[i] = _is_refused(shapes[i], noise[i], wait(bits[i]))
    return np.flatnonzero(marks)


@compiled
def retry(shapes: Array, noise: Array, places: Array, tries: Array, waits: Array) -> Array:
    """Put the first accepted of several tries, (tries, places), into ``noise``; the places where there is none."""
    left = np.empty_like(places)
    count = 0
    for column in range(len(places)):
        place = places[column]
        found = False
        for row in range(tries.shape[0]):
            if not _is_refused(shapes[place], tries[row, column], waits[row, column]):
                noise[place] = tries[row, column]
                found = True
                break
        if not found:
            left[count] = place
            count += 1
    return left[:count]


@inlined
def _log_draw(alpha: Scalar, noise: Scalar, first: Scalar, second: Scalar) -> tuple[Scalar, Scalar]:
    """Log of a Gamma draw of shape α and its derivative, from ε and two −log U."""
    root, spread = _root(alpha, noise)
    above = alpha + _ONE
    first, second = first / alpha, second / above
    log_draw = logarithm(spread) + _THREE * logarithm(root) - first - second
    slope = (_ONE - Single(1.5) * (root - _ONE) / root) / spread + first / alpha + second / above
    return log_draw, slope


@compiled
def beta_draws(shapes: Array, noise: Array, bits: Array) -> tuple[Array, Array]:
    """Beta draws d and (∂d/∂α, ∂d/∂β), from stacked shapes, (2, n), normal numbers, (2, n), and bits, (2, 2, n)."""
    n = shapes.shape[1]
    draws, slopes = np.empty(n, Single), np.empty((2, n), Single)
    for i in range(n):
        log_x, by_alpha = _log_draw(shapes[0, i], noise[0, i], wait(bits[0, 0, i]), wait(bits[1, 0, i]))
        log_y, by_beta = _log_draw(shapes[1, i], noise[1, i], wait(bits[0, 1, i]), wait(bits[1, 1, i]))
        logit = log_x - log_y  # d = x/(x+y)
        small = exponential(-abs(logit))
        over = _ONE / (_ONE + small)
        product = small * over * over  # d·(1−d)
        draws[i] = over if logit >= 0 else small * over
        slopes[0, i] = by_alpha * product
        slopes[1, i] = -by_beta * product
    return draws, slopes


_WIDEST = Single(10.0)  # bound of log σ²


@compiled
def loss_and_gradients(
    log_parameters: Array,  # (B, 2c), log α, then log β
    draw: Array,  # (B, c), d
    slopes: Array,  # (2, B, c), ∂d/∂α and ∂d/∂β
    noise: Array,  # (B, size of z)
    features: Array,  # (B, q)
    targets: Array,  # (B, c)
    weights: Array,  # (B, c)
    adjacency: Array,  # (B, B)
    latent_encoder: Layers,
    label_decoder: Layers,
    feature_decoder: Layers,
    feature_scale: float,
    elbo_weight: float,
) -> tuple[float, Array, Layers, Layers, Layers]:
    """T_LE; its derivatives by (log α, log β), (B, 2c); those by W₁, b₁, W₂, b₂ of the three networks."""
    size, n_labels = draw.shape
    n_features, n_latent = features.shape[1], noise.shape[1]
    scale = Single(elbo_weight / size)

    by_log_parameters = np.empty_like(log_parameters)
    divergence, consistency = _posterior(log_parameters, targets, weights, elbo_weight, by_log_parameters)

    known = np.empty((size, n_features + n_labels), Single)  # [x, d]
    known[:, :n_features] = features * Single(1.0 / feature_scale)
    known[:, n_features:] = draw
    encoded_hidden, encoded = _two_layers(known, latent_encoder)
    hidden_state = np.empty((size, n_labels + n_latent), Single)  # [d, z]
    hidden_state[:, :n_labels] = draw
    divergence += _draw_latent(encoded, noise, hidden_state[:, n_labels:])
    label_hidden, by_label_output = _two_layers(draw, label_decoder)
    decoded = _cross_entropy(by_label_output, targets, scale)
    feature_hidden, by_reconstruction = _two_layers(hidden_state, feature_decoder)
    squares = _residual(by_reconstruction, known, scale)
    by_links = np.dot(draw, draw.T)
    squares += _links(by_links, adjacency, scale)
    loss = elbo_weight / size * (decoded + divergence + squares) + consistency / size

    by_feature_hidden, of_feature_decoder = _back(hidden_state, feature_hidden, by_reconstruction, feature_decoder)
    by_state = np.dot(by_feature_hidden, feature_decoder[0])
    by_label_hidden, of_label_decoder = _back(draw, label_hidden, by_label_output, label_decoder)
    by_encoded = _by_encoded(encoded, noise, by_state[:, n_labels:], scale)
    by_encoded_hidden, of_latent_encoder = _back(known, encoded_hidden, by_encoded, latent_encoder)
    by_draw = np.dot(by_links, draw)
    by_draw += np.dot(by_label_hidden, label_decoder[0])
    by_draw += np.dot(by_encoded_hidden, np.ascontiguousarray(latent_encoder[0][:, n_features:]))
    by_draw += by_state[:, :n_labels]
    _through_draw(by_log_parameters, log_parameters, slopes, by_draw)
    return loss, by_log_parameters, of_latent_encoder, of_label_decoder, of_feature_decoder


@compiled
def _posterior(
    log_parameters: Array, targets: Array, weights: Array, elbo_weight: float, by_log_parameters: Array
) -> tuple[float, float]:
    """KL( q(D) ‖ p(D) ), T_C on the mean, both summed; their share of the derivative is written."""
    size, n_labels = targets.shape
    scale, over = Single(elbo_weight / size), Single(1.0 / size)
    divergence: Scalar = 0.0
    consistency: Scalar = 0.0
    for i in range(size):
        row_divergence, row_consistency = Single(0.0), Single(0.0)
        for j in range(n_labels):
            log_alpha, log_beta = log_parameters[i, j], log_parameters[i, n_labels + j]
            alpha, beta = exponential(log_alpha), exponential(log_beta)
            more_alpha, more_beta = alpha - _ONE, beta - _ONE
            value_alpha, digamma_alpha, trigamma_alpha = log_gamma_and_slopes(alpha)
            value_beta, digamma_beta, trigamma_beta = log_gamma_and_slopes(beta)
            value, digamma, trigamma = log_gamma_and_slopes(alpha + beta)
            more = more_alpha + more_beta
            row_divergence += (
                (value - digamma * more)
                - (value_alpha - digamma_alpha * more_alpha)
                - (value_beta - digamma_beta * more_beta)
            )
            shared = trigamma * more
            entropy, mean = softplus_and_sigmoid(log_alpha - log_beta)
            weight, target = weights[i, j], targets[i, j]
            row_consistency += weight * (entropy - target * (log_alpha - log_beta))
            by_mean = weight * (mean - target) * over
            by_log_parameters[i, j] = scale * alpha * (trigamma_alpha * more_alpha - shared) + by_mean
            by_log_parameters[i, n_labels + j] = scale * beta * (trigamma_beta * more_beta - shared) - by_mean
        divergence += row_divergence
        consistency += row_consistency
    return divergence, consistency


@compiled
def _two_layers(inputs: Array, layers: Layers) -> tuple[Array, Array]:
    """ReLU(W₁·x + b₁), and W₂ of it + b₂."""
    hidden = np.dot(inputs, layers[0].T)
    bias = layers[1]
    for i in range(hidden.shape[0]):
        for j in range(hidden.shape[1]):
            value = hidden[i, j] + bias[j]
            hidden[i, j] = Single(0.0) if value < 0 else value
    output = np.dot(hidden, layers[2].T)
    bias = layers[3]
    for i in range(output.shape[0]):
        for j in range(output.shape[1]):
            output[i, j] += bias[j]
    return hidden, output


@compiled
def _back(inputs: Array, hidden: Array, by_output: Array, layers: Layers) -> tuple[Array, Layers]:
    """Derivative by the hidden layer, before its ReLU; those by W₁, b₁, W₂, b₂."""
    by_hidden = np.dot(by_output, layers[2])
    for i in range(hidden.shape[0]):
        for j in range(hidden.shape[1]):
            by_hidden[i, j] = by_hidden[i, j] if hidden[i, j] > 0 else Single(0.0)
    of_first, of_second = np.dot(by_hidden.T, inputs), np.dot(by_output.T, hidden)
    return by_hidden, (of_first, by_hidden.sum(axis=0), of_second, by_output.sum(axis=0))


@compiled
def _draw_latent(encoded: Array, noise: Array, place: Array) -> Scalar:
    """Write z to ``place``; KL( q(Z) ‖ p(Z) )."""
    size = noise.shape[1]
    divergence: Scalar = 0.0
    for i in range(noise.shape[0]):
        for j in range(size):
            mean, log_variance = encoded[i, j], encoded[i, size + j]
            log_variance = -_WIDEST if log_variance < -_WIDEST else log_variance  # NaN stays
            log_variance = _WIDEST if log_variance > _WIDEST else log_variance
            deviation = exponential(_HALF * log_variance)
            place[i, j] = mean + deviation * noise[i, j]
            divergence += _HALF * (mean * mean + deviation * deviation - log_variance - _ONE)
    return divergence


@compiled
def _by_encoded(encoded: Array, noise: Array, by_latent: Array, scale: Scalar) -> Array:
    """Derivative by (μ, log σ²) from that by z; the divergence counts ``scale`` times."""
    size = noise.shape[1]
    found = np.empty_like(encoded)
    for i in range(noise.shape[0]):
        for j in range(size):
            log_variance = encoded[i, size + j]
            found[i, j] = by_latent[i, j] + scale * encoded[i, j]
            if -_WIDEST <= log_variance <= _WIDEST:
                deviation = exponential(_HALF * log_variance)
                by_deviation = by_latent[i, j] * noise[i, j] + scale * deviation
                found[i, size + j] = _HALF * (by_deviation * deviation - scale)
            else:
                found[i, size + j] = 0.0
    return found


@compiled
def _cross_entropy(logits: Array, targets: Array, scale: Scalar) -> Scalar:
    """Cross-entropy, summed; the logits become its derivative times ``scale``."""
    total: Scalar = 0.0
    for i in range(logits.shape[0]):
        row = Single(0.0)
        for j in range(logits.shape[1]):
            logit, target = logits[i, j], targets[i, j]
            entropy, probability = softplus_and_sigmoid(logit)
            row += entropy - target * logit
            logits[i, j] = (probability - target) * scale
        total += row
    return total


@compiled
def _residual(reconstruction: Array, known: Array, scale: Scalar) -> Scalar:
    """‖Ξ − X‖², X the first columns of ``known``; Ξ becomes its derivative times ``scale``."""
    total: Scalar = 0.0
    for i in range(reconstruction.shape[0]):
        row = Single(0.0)
        for j in range(reconstruction.shape[1]):
            residual = reconstruction[i, j] - known[i, j]
            row += residual * residual
            reconstruction[i, j] = _TWO * scale * residual
        total += row
    return total


@compiled
def _links(products: Array, adjacency: Array, scale: Scalar) -> Scalar:
    """‖A − sigmoid(DDᵀ)‖²; ``products``, DDᵀ, become what D is multiplied with in the derivative by D."""
    size = products.shape[0]
    total: Scalar = 0.0
    for i in range(size):
        for j in range(i + 1):
            _, linked = softplus_and_sigmoid(products[i, j])
            missed, other = linked - adjacency[i, j], linked - adjacency[j, i]
            total += missed * missed + (other * other if i != j else Single(0.0))
            products[i, j] = _TWO * scale * (missed + other) * linked * (_ONE - linked)
            products[j, i] = products[i, j]
    return total


@compiled
def _through_draw(by_log_parameters: Array, log_parameters: Array, slopes: Array, by_draw: Array) -> None:
    """Add what comes through d."""
    size, n_labels = by_draw.shape
    for i in range(size):
        for j in range(n_labels):
            for part in range(2):
                place = part * n_labels + j
                by_parameter = by_draw[i, j] * slopes[part, i, j]
                by_log_parameters[i, place] += by_parameter * exponential(log_parameters[i, place])

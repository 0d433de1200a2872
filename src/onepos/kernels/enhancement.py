"""T_LE of the SMILE paper and its gradient, compiled: the twin of ``onepos.methods.smile.enhancement_gradient``."""

import math

import numpy as np

from onepos.kernels.beta_draws import exponential, logarithm, softplus_and_sigmoid
from onepos.kernels.compilation import Array, Layers, Scalar, compiled, inlined

# Log Γ, ψ and ψ₁ of one number: the formulas of ``onepos.methods.smile.beta_divergence``, for loops.


Single = np.float32
_HALF_LOG_TAU = Single(0.5 * math.log(2.0 * math.pi))
_HALF, _ONE, _TWO, _THREE, _SIX = (Single(n) for n in (0.5, 1.0, 2.0, 3.0, 6.0))
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
    prior: tuple[float, float],
    log_prior: float,  # log of its Beta function
) -> tuple[float, Array, Layers, Layers, Layers]:
    """T_LE; its derivatives by (log α, log β), (B, 2c); those by W₁, b₁, W₂, b₂ of the three networks."""
    size, n_labels = draw.shape
    n_features, n_latent = features.shape[1], noise.shape[1]
    scale = Single(elbo_weight / size)

    by_log_parameters = np.empty_like(log_parameters)
    divergence, consistency = _posterior(log_parameters, targets, weights, prior, elbo_weight, by_log_parameters)
    divergence += size * n_labels * log_prior

    known = np.empty((size, n_features + n_labels), Single)  # [x, d]
    _fill(known, features, Single(1.0 / feature_scale), 0)
    _fill(known, draw, Single(1.0), n_features)
    encoded_hidden, encoded = _two_layers(known, latent_encoder)
    hidden_state = np.empty((size, n_labels + n_latent), Single)  # [d, z]
    _fill(hidden_state, draw, Single(1.0), 0)
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
    _add_product(by_draw, by_encoded_hidden, latent_encoder[0], n_features)
    _through_draw(by_log_parameters, log_parameters, slopes, by_draw, by_state)
    return loss, by_log_parameters, of_latent_encoder, of_label_decoder, of_feature_decoder


@compiled
def _posterior(
    log_parameters: Array,
    targets: Array,
    weights: Array,
    prior: tuple[float, float],
    elbo_weight: float,
    by_log_parameters: Array,
) -> tuple[float, float]:
    """KL( q(D) ‖ p(D) ) up to its constant, T_C on the mean, both summed; their share of the derivative is written."""
    size, n_labels = targets.shape
    scale, over = Single(elbo_weight / size), Single(1.0 / size)
    prior_alpha, prior_beta = Single(prior[0]), Single(prior[1])
    divergence: Scalar = 0.0
    consistency: Scalar = 0.0
    for i in range(size):
        row_divergence, row_consistency = Single(0.0), Single(0.0)
        for j in range(n_labels):
            log_alpha, log_beta = log_parameters[i, j], log_parameters[i, n_labels + j]
            alpha, beta = exponential(log_alpha), exponential(log_beta)
            more_alpha, more_beta = alpha - prior_alpha, beta - prior_beta
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
def _fill(place: Array, values: Array, factor: Scalar, start: int) -> None:
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            place[i, start + j] = factor * values[i, j]


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
    return by_hidden, (of_first, _column_sums(by_hidden), of_second, _column_sums(by_output))


@compiled
def _column_sums(values: Array) -> Array:
    sums = np.zeros(values.shape[1], Single)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            sums[j] += values[i, j]
    return sums


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
            deviation = exponential(Single(0.5) * log_variance)
            place[i, j] = mean + deviation * noise[i, j]
            divergence += Single(0.5) * (mean * mean + deviation * deviation - log_variance - Single(1.0))
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
                deviation = exponential(Single(0.5) * log_variance)
                by_deviation = by_latent[i, j] * noise[i, j] + scale * deviation
                found[i, size + j] = Single(0.5) * (by_deviation * deviation - scale)
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
            reconstruction[i, j] = Single(2.0) * scale * residual
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
            products[i, j] = Single(2.0) * scale * (missed + other) * linked * (Single(1.0) - linked)
            products[j, i] = products[i, j]
    return total


@compiled
def _add_product(place: Array, left: Array, right: Array, start: int) -> None:
    """Add left · right[:, start:] to ``place``."""
    for i in range(left.shape[0]):
        for k in range(left.shape[1]):
            factor = left[i, k]
            for j in range(place.shape[1]):
                place[i, j] += factor * right[k, start + j]


@compiled
def _through_draw(
    by_log_parameters: Array, log_parameters: Array, slopes: Array, by_draw: Array, by_state: Array
) -> None:
    """Add what comes through d; the first columns of ``by_state`` belong to its derivative too."""
    size, n_labels = by_draw.shape
    for i in range(size):
        for j in range(n_labels):
            by_soft = by_draw[i, j] + by_state[i, j]
            by_log_parameters[i, j] += by_soft * slopes[0, i, j] * exponential(log_parameters[i, j])
            by_log_parameters[i, n_labels + j] += (
                by_soft * slopes[1, i, j] * exponential(log_parameters[i, n_labels + j])
            )

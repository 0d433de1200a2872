"""T_LE with its gradient written out, in NumPy and single precision: an epoch takes four fifths of autograd's time.

The formulas are those of ``LabelEnhancement.reference_loss``, which automatic differentiation follows; tests compare
the two. ``by_x`` is the derivative of T_LE by x.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
#: W₁, b₁, W₂, b₂ of a network of two layers.
Layers: TypeAlias = Sequence[Array]

#: Elements computed together: intermediate results stay in the processor's cache.
_BLOCK = 1 << 13


@np.errstate(all="ignore")  # training that runs away shows in the loss
def loss_and_gradients(
    log_parameters: Array,  # (B, 2c), log α, then log β
    draw: Array,  # (B, c), d
    slopes: Array,  # (2, B, c), ∂d/∂α and ∂d/∂β
    noise: Array,  # (B, size of z)
    features: Array,  # (B, q)
    targets: Array,  # (B, c)
    weights: Array,  # (B, c)
    adjacency: Array,  # (B, B)
    networks: Sequence[Layers],  # w₂, η₁, η₂
    elbo_weight: float,  # λ
    widest: float,  # bound of log σ²
) -> tuple[float, Array, tuple[Layers, Layers, Layers]]:
    """T_LE; its derivatives by (log α, log β), (B, 2c); those by the layers of the three networks."""
    latent_encoder, label_decoder, feature_decoder = networks
    (size, n_labels), n_features = draw.shape, features.shape[1]
    scale = np.float32(elbo_weight / size)

    # T_C on the posterior mean, and KL( q(D) ‖ p(D) ).
    log_alpha, log_beta = log_parameters[:, :n_labels], log_parameters[:, n_labels:]
    consistency, by_logit = _cross_entropy(log_alpha - log_beta, targets, weights)
    shapes = np.exp(log_parameters)
    divergence, by_shapes = beta_divergence(shapes[:, :n_labels], shapes[:, n_labels:])

    # z ~ q(Z), KL( q(Z) ‖ p(Z) ), and what the decoders make of d and z.
    inputs = np.concatenate([features, draw], axis=1)
    encoded_hidden, encoded = _two_layers(inputs, latent_encoder)
    mean, log_variance = np.split(encoded, 2, axis=1)
    clamped = np.clip(log_variance, -widest, widest)
    deviation = np.exp(0.5 * clamped)
    latent_divergence = 0.5 * (mean * mean + deviation * deviation - clamped - 1.0).sum(dtype=np.float64)
    state = np.concatenate([draw, mean + deviation * noise], axis=1)
    label_hidden, label_logits = _two_layers(draw, label_decoder)
    decoded, by_label_logits = _cross_entropy(label_logits, targets)
    feature_hidden, reconstruction = _two_layers(state, feature_decoder)
    residual = reconstruction - features
    linked = 1.0 / (1.0 + np.exp(-(draw @ draw.T)))
    missed = linked - adjacency
    squares = _square_sum(residual) + _square_sum(missed)
    loss = (consistency + elbo_weight * (divergence + latent_divergence + decoded + squares)) / size

    # Back through the decoders and the latent encoder to d.
    by_feature_hidden, of_feature_decoder = _back(state, feature_hidden, 2.0 * scale * residual, feature_decoder)
    by_state = by_feature_hidden @ feature_decoder[0]
    by_label_hidden, of_label_decoder = _back(draw, label_hidden, scale * by_label_logits, label_decoder)
    by_latent = by_state[:, n_labels:]
    by_log_variance = 0.5 * (by_latent * noise * deviation + scale * (deviation * deviation - 1.0))
    by_log_variance[np.abs(log_variance) > widest] = 0.0
    by_encoded = np.concatenate([by_latent + scale * mean, by_log_variance], axis=1)
    by_encoded_hidden, of_latent_encoder = _back(inputs, encoded_hidden, by_encoded, latent_encoder)
    by_links = missed * linked * (1.0 - linked)
    by_draw = (2.0 * scale * (by_links + by_links.T)) @ draw
    by_draw += by_label_hidden @ label_decoder[0]
    by_draw += by_encoded_hidden @ latent_encoder[0][:, n_features:]
    by_draw += by_state[:, :n_labels]

    # And through d to α and β.
    by_shapes *= scale
    by_shapes += slopes * by_draw
    by_log_parameters = shapes * np.concatenate(by_shapes, axis=1)
    by_logit /= size
    by_log_parameters[:, :n_labels] += by_logit
    by_log_parameters[:, n_labels:] -= by_logit
    return loss, by_log_parameters, (of_latent_encoder, of_label_decoder, of_feature_decoder)


def _two_layers(inputs: Array, layers: Layers) -> tuple[Array, Array]:
    """ReLU(W₁·x + b₁), and W₂ of it + b₂."""
    hidden = inputs @ layers[0].T
    hidden += layers[1]
    np.maximum(hidden, 0.0, out=hidden)
    output = hidden @ layers[2].T
    output += layers[3]
    return hidden, output


def _back(inputs: Array, hidden: Array, by_output: Array, layers: Layers) -> tuple[Array, Layers]:
    """Derivative by the hidden layer, before its ReLU; those by W₁, b₁, W₂, b₂."""
    by_hidden = by_output @ layers[2]
    by_hidden *= hidden > 0
    return by_hidden, (by_hidden.T @ inputs, by_hidden.sum(axis=0), by_output.T @ hidden, by_output.sum(axis=0))


def _cross_entropy(logits: Array, targets: Array, weights: Any = 1.0) -> tuple[float, Array]:
    """Weighted cross-entropy, summed, and its derivative by the logits."""
    small = np.exp(-np.abs(logits))
    over = 1.0 / (1.0 + small)
    entropy = np.maximum(logits, 0.0) - np.log(over) - targets * logits
    probability = np.where(logits >= 0.0, over, small * over)
    return float((weights * entropy).sum(dtype=np.float64)), weights * (probability - targets)


def _square_sum(values: Array) -> float:
    return float(np.vdot(values, values))


def beta_divergence(alpha: Array, beta: Array) -> tuple[float, Array]:
    """KL( Beta(α, β) ‖ Beta(1, 1) ), summed, and its derivatives by α and β, (2, B, c)."""
    total, by_shapes = 0.0, np.empty((2, alpha.size), dtype=np.float32)
    flat = np.stack([alpha.ravel(), beta.ravel()])
    for start in range(0, alpha.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        shapes = np.stack([*flat[:, part], flat[0, part] + flat[1, part]])
        log_gamma, digamma, trigamma = log_gamma_and_slopes(shapes)
        more = shapes - np.array([[1.0], [1.0], [2.0]], dtype=np.float32)
        terms = digamma * more - log_gamma
        total += float((terms[0] + terms[1] - terms[2]).sum(dtype=np.float64))
        trigamma *= more
        by_shapes[:, part] = trigamma[:2] - trigamma[2]
    return total, by_shapes.reshape(2, *alpha.shape)


def log_gamma_and_slopes(x: Array) -> tuple[Array, Array, Array]:
    """ln Γ(x), ψ(x), ψ₁(x) of positive x: Stirling's series at x + 3, and the three steps back."""
    second, raised = x + 1.0, x + 3.0
    pair = x * (x + 2.0)
    product = pair * second  # x·(x+1)·(x+2)
    over = 1.0 / product
    by_steps = (3.0 * pair + 2.0) * over  # 1/x + 1/(x+1) + 1/(x+2)
    by_squares = by_steps * by_steps - 6.0 * second * over
    inverse = 1.0 / raised
    square = inverse * inverse
    log_raised = np.log(raised)
    log_gamma = _series(square, 1 / 12, -1 / 360, 1 / 1260)
    log_gamma *= inverse
    log_gamma += (raised - 0.5) * log_raised - np.log(product) - raised + 0.5 * math.log(2 * math.pi)
    digamma = _series(square, 1 / 12, -1 / 120, 1 / 252, -1 / 240)
    digamma *= -square
    digamma += log_raised - by_steps - 0.5 * inverse
    trigamma = _series(square, 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)
    trigamma *= inverse
    trigamma += 0.5
    trigamma *= square
    trigamma += inverse + by_squares
    return log_gamma, digamma, trigamma


def _series(x: Array, *coefficients: float) -> Array:
    """Σ c_n xⁿ."""
    total: Array = coefficients[-1] * x
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= x
    total += coefficients[0]
    return total

"""Soft labels and the single-positive risk R̂_sp, compiled."""

import numpy as np

from onepos.kernels.beta_draws import softplus_and_sigmoid
from onepos.kernels.compilation import Array, Scalar, compiled

Single = np.float32


@compiled
def posterior_means(log_parameters: Array) -> Array:
    """E[d] = α/(α+β), (B, c), from log α and log β beside each other."""
    size, n_labels = log_parameters.shape[0], log_parameters.shape[1] // 2
    means = np.empty((size, n_labels), Single)
    for i in range(size):
        for j in range(n_labels):
            means[i, j] = softplus_and_sigmoid(log_parameters[i, j] - log_parameters[i, n_labels + j])[1]
    return means


@compiled
def risk_and_slopes(logits: Array, soft: Array, positives: Array, bound: Scalar, slopes: Array) -> Scalar:
    """R̂_sp with weights w_i = min( 1 / (f_γ · c), κ ), summed over rows; its derivative by logits / B is written."""
    size, n_labels = logits.shape
    over = Single(1.0 / size)
    total: Scalar = 0.0
    for i in range(size):
        entropy, count, confidence = Single(0.0), Single(0.0), Single(0.0)
        for j in range(n_labels):
            logit, target = logits[i, j], soft[i, j]
            value, probability = softplus_and_sigmoid(logit)
            entropy += value - target * logit
            count += positives[i, j]
            confidence += positives[i, j] * probability
            slopes[i, j] = (probability - target) * over
        count = Single(1.0) if count < 1 else count
        weight = count / (confidence * Single(n_labels))
        weight = bound if weight > bound else weight
        total += weight * entropy
        for j in range(n_labels):
            slopes[i, j] *= weight
    return total

"""T_LE against the paper's formula, term by term in double precision."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, log_expit

from onepos.methods.smile.beta import sample_beta
from onepos.methods.smile.encoder import GraphEncoder
from onepos.methods.smile.enhancement import LabelEnhancement, sample_gaussian
from onepos.training import Batch


def model_and_batch(n_labels=6, unobserved_weight=0.3, elbo_weight=0.1, rows=5, n_features=5):
    generator = torch.Generator().manual_seed(0)
    n = max(20, rows)
    features = torch.randn(n, n_features, generator=generator)
    neighbors = np.column_stack([np.roll(np.arange(n), -step) for step in (1, 2, 3)])
    encoder = GraphEncoder(features, neighbors, n_labels, generator)
    weights = {"elbo_weight": elbo_weight, "unobserved_weight": unobserved_weight}
    model = LabelEnhancement(encoder, n_features, n_labels, **weights, feature_scale=1.7, generator=generator)
    which = torch.randperm(n, generator=generator)[:rows]
    observed = torch.zeros(rows, n_labels, dtype=torch.int8)
    observed[torch.arange(rows), torch.arange(rows) % n_labels] = 1
    observed[-1] = 0  # the last row has nothing
    observed[0, 1] = -1
    return model, Batch(which, features[which], observed)


def two_layers(network, inputs):
    """ReLU(x·W₁ + b₁)·W₂ + b₂ in double precision."""
    first, first_bias, second, second_bias = (weights.detach().double().numpy() for weights in network.parameters())
    return np.maximum(inputs @ first.T + first_bias, 0) @ second.T + second_bias


def cross_entropy(targets, logits, weights=1.0):
    return -(weights * (targets * log_expit(logits) + (1 - targets) * log_expit(-logits))).sum()


@pytest.mark.parametrize("unobserved_weight", [0.3, 1.0])
@pytest.mark.parametrize(("n_labels", "rows", "n_features"), [(2, 1, 2), (6, 5, 7), (30, 16, 3)])  # 30: fast draws
def test_the_loss_is_that_of_the_paper(n_labels, rows, n_features, unobserved_weight):
    model, batch = model_and_batch(n_labels, unobserved_weight, rows=rows, n_features=n_features)
    log_alpha, log_beta = model.encoder(batch.rows).detach().chunk(2, dim=1)
    model.generator.manual_seed(5)
    d = sample_beta(log_alpha.exp(), log_beta.exp(), model.generator, fast=n_labels >= 20).double().numpy()
    zeros = torch.zeros(rows, 8)
    noise = sample_gaussian(zeros, zeros, model.generator).double().numpy()
    model.generator.manual_seed(5)
    value = model.loss(batch).item()

    observed, x = batch.observed.numpy(), batch.features.double().numpy() / 1.7
    targets, weights = (observed > 0).astype(float), np.where(observed == 0, unobserved_weight, 1.0)
    consistency = cross_entropy(targets, (log_alpha - log_beta).double().numpy(), weights)
    alpha, beta = log_alpha.double().exp().numpy(), log_beta.double().exp().numpy()
    divergence = -stats.beta(alpha, beta).entropy().sum()  # the logarithm of the uniform prior is 0
    mean, log_variance = np.split(two_layers(model.latent_encoder, np.hstack([x, d])), 2, axis=1)
    divergence -= 0.5 * (1 + log_variance - mean**2 - np.exp(log_variance)).sum()
    z = mean + np.exp(log_variance / 2) * noise
    decoded = two_layers(model.feature_decoder, np.hstack([d, z]))
    places = batch.rows.numpy()
    linked = np.array([[float(i in model.encoder.neighbors[j]) for j in places] for i in places])
    unlikely = cross_entropy(targets, two_layers(model.label_decoder, d))
    unlikely += ((decoded - x) ** 2).sum() + ((linked - expit(d @ d.T)) ** 2).sum()
    assert value == pytest.approx((consistency + 0.1 * (unlikely + divergence)) / rows, rel=1e-5)


@pytest.mark.parametrize("place", ["encoder", "latent_encoder"])
def test_what_is_not_a_number_shows_in_the_loss(place):
    model, batch = model_and_batch()
    with torch.no_grad():
        next(getattr(model, place).parameters())[0, 0] = np.nan
    assert torch.isnan(model.loss(batch))

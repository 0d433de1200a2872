"""T_LE of the SMILE paper and its gradient in one pass, written out.

It is what automatic differentiation of ``LabelEnhancement.reference_loss`` gives, for one draw of D (a test compares
them). At batches of 16 rows nearly all time of a step is the price of starting small operations; done by hand there
are a third as many, and T_LE with its gradient takes about half as long.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from onepos.beta_divergence import beta_kl_and_slopes
from onepos.posterior import draw_beta, normal_rows

sigmoid_backward = torch.ops.aten.sigmoid_backward
#: From here on log(1 + eˣ) is x, in double precision too.
_LINEAR_FROM = 40.0


class Others(NamedTuple):
    """What a process needs of the rows that other processes compute: B rows in the batch, b of them its own."""

    rows: tuple[int, int, int]  # first and last of the own ones, B
    both: Tensor  # (2, B, c), α and β of the whole batch
    incoming: Tensor  # (b, B), a_ji for own i and all j; ``Given.adjacency`` is a_ij then


class Given(NamedTuple):
    """What T_LE is computed from besides the parameters: data of the batch, constants, and how D is drawn."""

    features: Tensor  # (B, q)
    feature_scale: float  # what they are divided by
    targets: Tensor  # (B, c), 1 where a label was observed
    weights: Tensor  # (B, c), of the entries in T_C
    adjacency: Tensor  # (B, B)
    elbo_weight: float
    prior: tuple[float, float]
    generator: torch.Generator | None
    fast_draws: bool
    others: Others | None = None


def enhancement_loss(
    log_alpha: Tensor,
    log_beta: Tensor,
    latent_encoder: nn.Sequential,
    label_decoder: nn.Sequential,
    feature_decoder: nn.Sequential,
    given: Given,
) -> Tensor:
    """T_LE = −λ·ELBO + T_C, summed over labels and averaged over rows, for networks of two layers.

    With ``others``, this process's share of it: the sum over processes is T_LE, of the loss and of the gradient.
    """
    parameters = [p for network in (latent_encoder, label_decoder, feature_decoder) for p in network.parameters()]
    loss: Tensor = _EnhancementLoss.apply(given, log_alpha, log_beta, *parameters)  # type: ignore[no-untyped-call]
    return loss


class _EnhancementLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Given, log_alpha: Tensor, log_beta: Tensor, *parameters: Tensor) -> Tensor:
        loss, by_log_parameters, gradients = loss_and_gradients(given, torch.cat([log_alpha, log_beta], 1), parameters)
        ctx.gradients = [*by_log_parameters.chunk(2, dim=1), *gradients]
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        factor = float(gradients[0])
        # As a rule T_LE is what is minimised, and the factor is one.
        return None, *(ctx.gradients if factor == 1.0 else [g * factor for g in ctx.gradients])


class _TwoLayers:
    """W₂·ReLU(W₁·x + b₁) + b₂ with its gradients."""

    def __init__(self, parameters: Sequence[Tensor], inputs: Tensor) -> None:
        self.first, first_bias, self.second, second_bias = parameters
        self.inputs = inputs
        self.hidden = linear(inputs, self.first, first_bias).relu_()
        self.output = linear(self.hidden, self.second, second_bias)

    def gradients(self, by_output: Tensor) -> list[Tensor]:
        """By W₁, b₁, W₂, b₂, for the gradient by the output."""
        self.by_hidden = torch.ops.aten.threshold_backward(torch.mm(by_output, self.second), self.hidden, 0.0)
        return [
            torch.mm(self.by_hidden.t(), self.inputs),
            self.by_hidden.sum(0),
            torch.mm(by_output.t(), self.hidden),
            by_output.sum(0),
        ]

    def by_inputs(self, start: int = 0) -> Tensor:
        """By the inputs from the given column on, after ``gradients``."""
        return torch.mm(self.by_hidden, self.first[:, start:])


def loss_and_gradients(
    given: Given, log_parameters: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """T_LE; its derivatives by (log α, log β), (B, 2c) as they come; those by the parameters of the three networks."""
    targets, others = given.targets, given.others
    (size, n_labels), n_features = targets.shape, given.features.shape[1]
    n_rows = size if others is None else others.rows[2]
    scale = given.elbo_weight / n_rows

    stacked = log_parameters.view(size, 2, n_labels).transpose(0, 1)  # (2, B, c)
    both = stacked.contiguous().exp_()
    divergence, by_divergence = beta_kl_and_slopes(both, given.prior)
    if others is None:
        soft, slopes = draw_beta(both, given.generator, fast=given.fast_draws)
        everyone = soft
    else:
        own = slice(*others.rows[:2])
        everyone, slopes = draw_beta(others.both, given.generator, fast=given.fast_draws, rows=own)
        soft = everyone[own]

    # x, d and z side by side: the networks read [x, d], d and [d, z].
    joint = both.new_empty((size, n_features + n_labels + len(parameters[3]) // 2))
    features, latent_place = joint[:, :n_features], joint[:, n_features + n_labels :]
    torch.div(given.features, given.feature_scale, out=features)
    joint[:, n_features : n_features + n_labels] = soft

    encoded = _TwoLayers(parameters[:4], joint[:, : n_features + n_labels])
    latent = _Latent(encoded.output, given, latent_place)
    labels = _TwoLayers(parameters[4:8], soft)
    reconstruction = _TwoLayers(parameters[8:], joint[:, n_features:])
    residual = reconstruction.output.sub_(features).view(-1)
    linked = torch.mm(soft, everyone.t()).sigmoid_()  # (b, B); d of the other rows is a number here
    missed = linked - given.adjacency

    # T_C is on the posterior mean, whose logit is log α − log β; its cross-entropy goes along with the decoder's.
    logits = torch.stack([stacked[0] - stacked[1], labels.output])
    by_logits = torch.sigmoid(logits).sub_(targets)
    by_mean, by_label_output = by_logits.unbind()
    by_mean.mul_(given.weights)
    entropy = softplus(logits, 1.0, _LINEAR_FROM).addcmul_(targets, logits, value=-1.0)
    loss = torch.dot(entropy[0].view(-1), given.weights.view(-1)).div_(n_rows)
    loss.add_(entropy[1].sum().add_(divergence).add_(torch.dot(residual, residual)), alpha=scale)
    loss.add_(torch.dot(missed.view(-1), missed.view(-1)).add_(latent.divergence), alpha=scale)

    by_reconstruction = reconstruction.gradients(reconstruction.output.mul_(2.0 * scale))
    by_decoder_inputs = reconstruction.by_inputs()
    by_labels = labels.gradients(by_label_output.mul_(scale))
    if others is None:
        by_links = sigmoid_backward(missed, linked)
        by_links = by_links + by_links.t()
    else:
        # d of an own row is in its row of the block and in its column, which other processes have the most of.
        by_links = sigmoid_backward(missed.add_(linked).sub_(others.incoming), linked)
    by_latent_encoder = encoded.gradients(latent.by_encoded(by_decoder_inputs[:, n_labels:], scale))
    by_soft = torch.addmm(by_decoder_inputs[:, :n_labels], by_links, everyone, alpha=2.0 * scale)
    by_soft.add_(labels.by_inputs()).add_(encoded.by_inputs(n_features))

    slopes.mul_(by_soft).add_(by_divergence, alpha=scale)
    by_log_parameters = torch.empty_like(log_parameters)
    by_stacked = by_log_parameters.view(size, 2, n_labels).transpose(0, 1)
    torch.mul(slopes, both, out=by_stacked)  # from α, β to their logarithms
    by_stacked[0].add_(by_mean, alpha=1.0 / n_rows)
    by_stacked[1].sub_(by_mean, alpha=1.0 / n_rows)
    return loss, by_log_parameters, [*by_latent_encoder, *by_labels, *by_reconstruction]


class _Latent:
    """A draw of z from q(Z), written to ``place``, and KL( q(Z) ‖ p(Z) ) summed over the batch."""

    def __init__(self, encoded: Tensor, given: Given, place: Tensor) -> None:
        self.mean, self.log_variance = encoded.chunk(2, dim=1)
        self.bounded = self.log_variance.clamp(-10.0, 10.0)
        self.deviation = (0.5 * self.bounded).exp_()
        self.noise = normal_rows(self.mean, given.generator, None if given.others is None else given.others.rows)
        torch.addcmul(self.mean, self.deviation, self.noise, out=place)
        spreads = torch.addcmul(-1.0 - self.bounded, self.mean, self.mean).addcmul_(self.deviation, self.deviation)
        self.divergence = spreads.sum().mul_(0.5)

    def by_encoded(self, by_latent: Tensor, scale: float) -> Tensor:
        """Derivative by what the encoder says, (B, 2·size), from that by z; the divergence counts ``scale`` times."""
        by_log_variance = (by_latent * self.noise).add_(self.deviation, alpha=scale).mul_(self.deviation).sub_(scale)
        by_log_variance.mul_(0.5).mul_(self.bounded == self.log_variance)
        return torch.cat([by_latent.add(self.mean, alpha=scale), by_log_variance], dim=1)

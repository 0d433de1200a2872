"""T_LE of the SMILE paper and its gradient in one pass, written out.

It is what automatic differentiation of ``LabelEnhancement.reference_loss`` gives, for one draw of D (a test compares
them). At batches of 16 rows nearly all time of a step is the price of starting small operations; done by hand there
are a third as many, and T_LE with its gradient takes about half as long.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from onepos.backpropagation import cross_entropy
from onepos.beta_divergence import beta_kl_and_slopes
from onepos.posterior import draw_beta, normal_rows


class Others(NamedTuple):
    """What a process needs of the rows that other processes compute: B rows in the batch, b of them its own."""

    rows: tuple[int, int, int]  # first and last of the own ones, B
    both: Tensor  # (2, B, c), α and β of the whole batch
    incoming: Tensor  # (b, B), a_ji for own i and all j; ``Given.adjacency`` is a_ij then


class Given(NamedTuple):
    """What T_LE is computed from besides the parameters: data of the batch, constants, and how D is drawn."""

    features: Tensor  # (B, q)
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
        loss, by_log_parameters, gradients = loss_and_gradients(given, torch.stack([log_alpha, log_beta]), parameters)
        ctx.gradients = [*by_log_parameters, *gradients]
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
        self.hidden = torch.addmm(first_bias, inputs, self.first.t()).relu_()
        self.output = torch.addmm(second_bias, self.hidden, self.second.t())

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
    given: Given, log_both: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """T_LE; its derivatives by the stacked (log α, log β), (2, B, c); those by the parameters of the three networks."""
    features, targets = given.features, given.targets
    n_labels, n_features, others = targets.shape[1], features.shape[1], given.others
    n_rows = len(targets) if others is None else others.rows[2]

    # T_C is on the posterior mean, whose logit is log α − log β.
    consistency, by_logit = cross_entropy(log_both[0] - log_both[1], targets, given.weights, n_rows)
    both = log_both.exp()
    divergence, by_divergence = beta_kl_and_slopes(both, given.prior)
    if others is None:
        soft, slopes = draw_beta(both, given.generator, fast=given.fast_draws)
        everyone = soft
    else:
        own = slice(*others.rows[:2])
        everyone, slopes = draw_beta(others.both, given.generator, fast=given.fast_draws, rows=own)
        soft = everyone[own]

    latent = _TwoLayers(parameters[:4], torch.cat([features, soft], dim=1))
    mean, log_variance = latent.output.chunk(2, dim=1)
    bounded = log_variance.clamp(-10.0, 10.0)
    deviation = torch.exp(0.5 * bounded)
    variance = deviation.square()
    noise = normal_rows(mean, given.generator, None if others is None else others.rows)
    labels = _TwoLayers(parameters[4:8], soft)
    reconstruction = _TwoLayers(parameters[8:], torch.cat([soft, torch.addcmul(mean, deviation, noise)], dim=1))
    residual = reconstruction.output.sub_(features)
    linked = torch.mm(soft, everyone.t()).sigmoid_()  # (b, B); d of the other rows is a number here
    missed = linked - given.adjacency

    scale = given.elbo_weight / n_rows
    explained, by_label_output = cross_entropy(labels.output, targets, None, n_rows)
    spreads = torch.addcmul(variance, mean, mean).sub_(bounded).sub_(1.0)  # twice KL(q(Z)‖p(Z))
    loss = consistency.add_(explained, alpha=given.elbo_weight).add_(divergence, alpha=scale)
    for squared in (residual.view(-1), missed.view(-1)):
        loss.add_(torch.dot(squared, squared), alpha=scale)
    loss.add_(spreads.sum(), alpha=0.5 * scale)

    by_reconstruction = reconstruction.gradients(residual.mul_(2.0 * scale))
    by_decoder_inputs = reconstruction.by_inputs()
    by_latent = by_decoder_inputs[:, n_labels:]
    by_labels = labels.gradients(by_label_output.mul_(given.elbo_weight))
    if others is None:
        by_links = missed.mul_(linked).mul_(1.0 - linked).mul_(2.0 * scale)
        by_links = by_links + by_links.t()
    else:
        # d of an own row is in its row of the block and in its column, which other processes have the most of.
        by_links = missed.add_(linked).sub_(others.incoming).mul_(linked).mul_(1.0 - linked).mul_(2.0 * scale)
    by_log_variance = (by_latent * noise).mul_(deviation).add_(variance - 1.0, alpha=scale).mul_(0.5)
    by_log_variance.mul_(bounded == log_variance)
    by_mean = by_latent.add(mean, alpha=scale)
    by_latent_encoder = latent.gradients(torch.cat([by_mean, by_log_variance], dim=1))
    by_soft = by_decoder_inputs[:, :n_labels] + labels.by_inputs()
    by_soft.add_(latent.by_inputs(n_features)).addmm_(by_links, everyone)

    by_both = (
        slopes.mul_(by_soft).add_(by_divergence, alpha=scale).mul_(both)
    )  # the last: from α, β to their logarithms
    by_both[0].add_(by_logit)
    by_both[1].sub_(by_logit)
    return loss, by_both, [*by_latent_encoder, *by_labels, *by_reconstruction]

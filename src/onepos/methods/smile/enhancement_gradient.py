"""T_LE of the SMILE paper and its gradient in one pass, written out, on the CPU.

It is what automatic differentiation of ``LabelEnhancement.reference_loss`` gives, for one draw of D (a test compares
them). At batches of 16 rows nearly all time of a step is the price of starting small operations: done by hand there are
a third as many, and most of what is no matrix product is left to NumPy, which starts one in a third of torch's time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from onepos import kernels
from onepos.methods.smile.beta_divergence import beta_kl_and_slopes, log_beta_function
from onepos.methods.smile.beta_sampling import Numbers
from onepos.methods.smile.encoder_pass import ParameterViews
from onepos.methods.smile.posterior import draw_beta, normal_rows

#: From here on log(1 + eˣ) is x, in double precision too.
_LINEAR_FROM = 40.0
#: Bound of log σ².
_WIDEST = 10.0


class Others(NamedTuple):
    """What a process needs of the rows that other processes compute: B rows in the batch, b of them its own."""

    rows: tuple[int, int, int]  # first and last of the own ones, B
    both: Numbers  # (2, B, c), α and β of the whole batch
    incoming: Numbers  # (b, B), a_ji for own i and all j; ``Given.adjacency`` is a_ij then


class Given(NamedTuple):
    """What T_LE is computed from besides the parameters: data of the batch, constants, and how D is drawn."""

    features: Tensor  # (B, q)
    feature_scale: float  # what they are divided by
    targets: Tensor  # (B, c), 1 where a label was observed
    weights: Numbers  # (B, c), of the entries in T_C
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
        self.by_hidden = torch.mm(by_output, self.second)
        values = self.by_hidden.numpy()
        values *= self.hidden.numpy() > 0.0
        return [
            torch.mm(self.by_hidden.t(), self.inputs),
            torch.from_numpy(np.add.reduce(values)),
            torch.mm(by_output.t(), self.hidden),
            torch.from_numpy(np.add.reduce(by_output.numpy())),
        ]

    def by_inputs(self, start: int = 0) -> Tensor:
        """By the inputs from the given column on, after ``gradients``."""
        return torch.mm(self.by_hidden, self.first[:, start:])


@np.errstate(over="ignore", invalid="ignore")  # training that runs away is noticed by its loss
def loss_and_gradients(
    given: Given, log_parameters: Tensor, parameters: Sequence[Tensor], views: ParameterViews | None = None
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """T_LE; its derivatives by (log α, log β), (B, 2c) as they come; those by the parameters of the three networks.

    ``views`` are the parameters as arrays, if somebody keeps them.
    """
    if given.others is None and log_parameters.dtype == torch.float32 and kernels.available():
        return _compiled(given, log_parameters, (ParameterViews(parameters) if views is None else views)())
    targets, weights, others = given.targets.numpy(), given.weights, given.others
    (size, n_labels), n_features = targets.shape, given.features.shape[1]
    n_rows = size if others is None else others.rows[2]
    scale = given.elbo_weight / n_rows

    stacked = log_parameters.numpy().reshape(size, 2, n_labels).transpose(1, 0, 2)
    both = np.empty_like(stacked, order="C")  # (2, B, c)
    np.exp(stacked, out=both)
    divergence, by_divergence = beta_kl_and_slopes(both, given.prior)
    if others is None:
        soft, slopes = draw_beta(both, given.generator, fast=given.fast_draws)
        everyone = torch.from_numpy(soft)
    else:
        own = slice(*others.rows[:2])
        drawn, slopes = draw_beta(others.both, given.generator, fast=given.fast_draws, rows=own)
        everyone, soft = torch.from_numpy(drawn), drawn[own]

    # x, d and z side by side: the networks read [x, d], d and [d, z].
    joint = log_parameters.new_empty((size, n_features + n_labels + len(parameters[3]) // 2))
    places = joint.numpy()
    features = places[:, :n_features]
    np.multiply(given.features.numpy(), 1.0 / given.feature_scale, out=features)
    places[:, n_features : n_features + n_labels] = soft

    encoded = _TwoLayers(parameters[:4], joint[:, : n_features + n_labels])
    latent = _Latent(encoded.output, given, places[:, n_features + n_labels :])
    labels = _TwoLayers(parameters[4:8], everyone if others is None else everyone[own])
    reconstruction = _TwoLayers(parameters[8:], joint[:, n_features:])
    residual = reconstruction.output.sub_(joint[:, :n_features])
    linked = torch.mm(labels.inputs, everyone.t()).sigmoid_().numpy()  # (b, B); d of the other rows is a number here
    missed = linked - given.adjacency.numpy()

    # T_C is on the posterior mean, whose logit is log α − log β; its cross-entropy goes along with the decoder's.
    logits = log_parameters.new_empty((2, size, n_labels))
    values = logits.numpy()
    np.subtract(stacked[0], stacked[1], out=values[0])
    values[1] = labels.output.numpy()
    entropy = softplus(logits, 1.0, _LINEAR_FROM).numpy()
    by_logits = torch.sigmoid(logits)
    by_mean, by_label_output = by_logits.numpy()
    entropy -= values * targets
    by_mean -= targets
    by_label_output -= targets
    by_mean *= weights
    entropy[0] *= weights
    consistency, decoded = np.add.reduce(entropy.reshape(2, -1), axis=1).tolist()
    squares = float(np.add.reduce(np.square(missed), axis=None))
    loss = torch.dot(residual.view(-1), residual.view(-1))
    loss.add_(decoded + divergence + squares + latent.divergence).mul_(scale).add_(consistency / n_rows)

    by_reconstruction = reconstruction.gradients(residual.mul_(2.0 * scale))
    by_decoder_inputs = reconstruction.by_inputs()
    by_label_output *= scale
    by_labels = labels.gradients(by_logits[1])
    if others is None:
        by_links = missed * linked
        by_links *= 1.0 - linked
        by_links = by_links + by_links.T
    else:
        # d of an own row is in its row of the block and in its column, which other processes have the most of.
        by_links = (missed + linked - others.incoming) * linked * (1.0 - linked)
    by_latent_encoder = encoded.gradients(latent.by_encoded(by_decoder_inputs.numpy()[:, n_labels:], scale))
    by_soft = torch.addmm(by_decoder_inputs[:, :n_labels], torch.from_numpy(by_links), everyone, alpha=2.0 * scale)
    by_soft.add_(labels.by_inputs()).add_(encoded.by_inputs(n_features))

    slopes *= by_soft.numpy()
    by_divergence *= scale
    slopes += by_divergence
    by_log_parameters = torch.empty_like(log_parameters)
    by_stacked = by_log_parameters.numpy().reshape(size, 2, n_labels).transpose(1, 0, 2)
    np.multiply(slopes, both, out=by_stacked)  # from α, β to their logarithms
    by_mean *= 1.0 / n_rows
    by_stacked[0] += by_mean
    by_stacked[1] -= by_mean
    return loss, by_log_parameters, [*by_latent_encoder, *by_labels, *by_reconstruction]


def _compiled(given: Given, log_parameters: Tensor, values: tuple[Numbers, ...]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The same from the same random numbers, by kernels."""
    from onepos.kernels import enhancement

    size, n_labels = given.targets.shape
    stacked = log_parameters.numpy().reshape(size, 2, n_labels).transpose(1, 0, 2)
    draw, slopes = draw_beta(np.exp(stacked, order="C"), given.generator, fast=given.fast_draws)
    noise = normal_rows(log_parameters.new_empty((size, len(values[3]) // 2)), given.generator, None)
    loss, by_log_parameters, *gradients = enhancement.loss_and_gradients(
        log_parameters.numpy(),
        draw,
        slopes,
        noise.numpy(),
        given.features.numpy(),
        given.targets.numpy(),
        given.weights,
        given.adjacency.numpy(),
        values[:4],
        values[4:8],
        values[8:],
        float(given.feature_scale),
        float(given.elbo_weight),
        given.prior,
        log_beta_function(*given.prior),
    )
    found = [torch.from_numpy(gradient) for network in gradients for gradient in network]
    return torch.from_numpy(np.asarray(loss, dtype=np.float32)), torch.from_numpy(by_log_parameters), found


class _Latent:
    """A draw of z from q(Z), written to ``place``, and KL( q(Z) ‖ p(Z) ) summed over the batch."""

    def __init__(self, encoded: Tensor, given: Given, place: Numbers) -> None:
        values = encoded.numpy()
        size = values.shape[1] // 2
        self.mean, self.log_variance = values[:, :size], values[:, size:]
        self.bounded = np.minimum(np.maximum(self.log_variance, -_WIDEST), _WIDEST)
        self.deviation = np.exp(0.5 * self.bounded)
        rows = None if given.others is None else given.others.rows
        self.noise = normal_rows(encoded[:, :size], given.generator, rows).numpy()
        np.multiply(self.deviation, self.noise, out=place)
        place += self.mean
        spreads = self.mean * self.mean
        spreads += self.deviation * self.deviation
        spreads -= self.bounded
        spreads -= 1.0
        self.divergence = 0.5 * float(np.add.reduce(spreads, axis=None))

    def by_encoded(self, by_latent: Numbers, scale: float) -> Tensor:
        """Derivative by what the encoder says, (B, 2·size), from that by z; the divergence counts ``scale`` times."""
        rows, size = by_latent.shape
        found = np.empty((rows, 2 * size), dtype=by_latent.dtype)
        by_mean, by_log_variance = found[:, :size], found[:, size:]
        np.multiply(self.mean, scale, out=by_mean)
        by_mean += by_latent
        np.multiply(by_latent, self.noise, out=by_log_variance)
        by_log_variance += scale * self.deviation
        by_log_variance *= self.deviation
        by_log_variance -= scale
        by_log_variance *= 0.5
        by_log_variance *= self.bounded == self.log_variance
        return torch.from_numpy(found)

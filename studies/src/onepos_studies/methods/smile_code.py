"""SMILE as its authors released it (palm-ml/smile, ``train_smile2.py``), which is not quite what the paper says.

==========================  ==============  ===========================================================
here                        there           meaning
==========================  ==============  ===========================================================
``encoder``                 encoder         graph network, row → logits of d
``latent_encoder``          encoder_z       [x, d] → z_h, no distribution
``feature_decoder``         decoder         [d, z_h] → X̂
``RECONSTRUCTION_WEIGHT``   γ (``gamma``)   weight of MSE(X̂, x) + AN(Ŷ, s) + MSE(ŶŶᵀ, A)
``DIVERGENCE_WEIGHT``       δ (``delta``)   weight of KL′
==========================  ==============  ===========================================================
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from onepos._utils.parameters import AT_LEAST_ONE, COUNT, POSITIVE_OR_ZERO, PROBABILITY, Constraints, one_of
from onepos.graph.neighbors import neighbor_graph, neighbor_means
from onepos.methods._fit_network import GraphFeatures
from onepos.methods._neural import Context, GraphClassifier
from onepos.methods.smile.beta import sample_beta
from onepos.methods.smile.encoder import sparse_if_it_pays, sparse_product
from onepos.training import Batch, Objective
from onepos.training.losses import assume_negative, binary_cross_entropy
from onepos.training.networks import MLP, linear
from onepos.training.objective import as_features, gather


def in_edges(neighbors: NDArray[np.int64]) -> Any:
    """P of shape (n, n), CSR in float64: row v holds 1/(√k·√deg_in(v)) at the rows u that list v as a neighbour."""
    n_samples, n_neighbors = neighbors.shape
    listed_by = neighbor_means(neighbors, n_samples).T.tocsr()
    in_degree = np.diff(listed_by.indptr)
    weights = np.repeat(1.0 / np.sqrt(n_neighbors * np.maximum(in_degree, 1.0)), in_degree)
    return sparse.csr_array((weights, listed_by.indices, listed_by.indptr), shape=listed_by.shape)


def _glorot(n_inputs: int, n_outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """The weight and bias of a graph convolution: Glorot-uniform weights and a bias of zero, as DGL starts it."""
    layer = nn.Linear(n_inputs, n_outputs, device="meta").to_empty(device="cpu")
    bound = (6.0 / (n_inputs + n_outputs)) ** 0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer


class ReleasedEncoder(nn.Module):
    """Rows → logits of soft labels d: graph convolution, ReLU, graph convolution, linear layer, all n_labels wide.

    Few entries of a row of P (``graph``) are not zero, so a batch needs PX (``aggregated``) only at the rows that its
    own rows of P name.
    """

    def __init__(self, aggregated: Any, graph: Any, n_labels: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.aggregated, self.graph = sparse_if_it_pays(aggregated), graph
        first = _glorot(aggregated.shape[1], n_labels, generator)
        self.first_weight = nn.Parameter(first.weight.detach().T.contiguous())  # as the sparse product needs it
        self.first_bias, self.second = first.bias, _glorot(n_labels, n_labels, generator)
        self.last = linear(n_labels, n_labels, generator)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of d for the given rows, shape (batch, n_labels)."""
        graph = self.graph[rows.cpu().numpy()]
        columns = torch.from_numpy(graph.indices.astype(np.int64))
        weights = torch.from_numpy(graph.data).to(self.first_weight).unsqueeze(1)
        owners = torch.from_numpy(np.repeat(np.arange(len(rows)), np.diff(graph.indptr))).to(rows.device)
        if sparse.issparse(self.aggregated) and rows.device.type == "cpu":
            hidden = sparse_product(self.aggregated[columns.numpy()], self.first_weight) + self.first_bias
        else:
            inputs = gather(self.aggregated, columns.to(rows.device))
            hidden = torch.addmm(self.first_bias, inputs, self.first_weight)
        hidden = torch.relu(hidden) * weights
        sums = hidden.new_zeros(len(rows), hidden.shape[1]).index_add(0, owners, hidden)
        logits: Tensor = self.last(self.second(sums))
        return logits

    def linked(self, rows: Tensor) -> Tensor:
        """Return A within the given rows, all different: a_ij = 1 if P names row i for row j, a neighbour."""
        places = rows.cpu().numpy()
        linked = (self.graph[places][:, places] != 0).toarray().T
        np.fill_diagonal(linked, False)
        return torch.from_numpy(linked.astype(np.float32))


#: γ and δ of the script: weights of what the decoders reconstruct, and of KL′.
RECONSTRUCTION_WEIGHT, DIVERGENCE_WEIGHT = 1e-3, 1.0
#: Of the released −log(x + 1e-5); also added to the parameters of the Beta. The second is that of KL′.
_LOG_OFFSET, _DIVERGENCE_OFFSET = 1e-5, 1e-6


def released_divergence(logits: Tensor) -> Tensor:
    """KL′ = lnΓ(d) + lnΓ(1−d) + (d−1)·ψ(d) + (1−d−1)·ψ(1−d), elementwise, with d = σ(logits).

    1e-6 is added to d and to 1−d. Kept as released. It is not KL( Beta(d, 1−d) ‖ Beta(1, 1) ), in
    which both lnΓ are negative and ψ(1) is added.
    """
    present = torch.sigmoid(logits) + _DIVERGENCE_OFFSET
    absent = torch.sigmoid(-logits) + _DIVERGENCE_OFFSET  # 1 − d without cancellation
    return (
        torch.lgamma(present)
        + torch.lgamma(absent)
        + (present - 1.0) * torch.digamma(present)
        + (absent - 1.0) * torch.digamma(absent)
    )


class ReleasedModel(nn.Module):
    """The part of the released SMILE that recovers d. z_h has n_labels entries."""

    def __init__(
        self,
        encoder: ReleasedEncoder,
        n_features: int,
        n_labels: int,
        decoder_hidden: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.latent_encoder = MLP([n_features + n_labels, n_labels, n_labels], generator=generator)
        self.feature_decoder = MLP([2 * n_labels, decoder_hidden, n_features], generator=generator)
        self.generator = generator

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """AN(d, s) + γ·[ MSE(X̂, x) + AN(Ŷ, s) + MSE(ŶŶᵀ, A) ] + δ·KL′, with d = σ(logits)."""
        return (
            assume_negative(logits, batch.observed) / logits.shape[1]
            + DIVERGENCE_WEIGHT * released_divergence(logits).mean()
            + RECONSTRUCTION_WEIGHT * self._reconstruction(logits, batch)
        )

    def _reconstruction(self, logits: Tensor, batch: Batch) -> Tensor:
        soft, features = torch.sigmoid(logits), batch.features
        positives = (batch.observed > 0).to(soft.dtype)
        latent = self.latent_encoder(torch.cat([features, soft], dim=1))
        reconstructed = self.feature_decoder(torch.cat([soft, latent], dim=1))
        drawn = sample_beta(soft + _LOG_OFFSET, torch.sigmoid(-logits) + _LOG_OFFSET, self.generator)
        # Here the offset stays: α + β ≈ 1, so draws sit at 0 and 1, and it alone keeps the logarithms bounded.
        seen = positives * torch.log(drawn + _LOG_OFFSET) + (1.0 - positives) * torch.log(1.0 - drawn + _LOG_OFFSET)
        # A_ij = 1 if j is among the neighbours of i: P has their edges the other way round.
        adjacency = self.encoder.linked(batch.rows).to(drawn)
        return (
            functional.mse_loss(reconstructed, features) - seen.mean() + functional.mse_loss(drawn @ drawn.T, adjacency)
        )


class SMILEReleasedObjective(Objective):
    """Encoder loss plus classifier loss, both forward passes before the one step."""

    def __init__(
        self,
        network: nn.Module,
        model: ReleasedModel,
        share: float,
        unobserved_target: float,
        unobserved_weight: float,
        graph: GraphFeatures | None = None,
    ) -> None:
        super().__init__(network)
        self.model = model
        self.graph = graph
        self.share = share
        self.unobserved_target = unobserved_target
        self.unobserved_weight = unobserved_weight

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One sum: the parameter sets are disjoint and D carries no gradient, so this equals two Adams side by side."""
        label_logits = self.model.encoder(batch.rows)
        targets = self.targets(label_logits.detach(), batch.observed)
        logits = self.network(batch.features)
        weights = torch.ones_like(logits).masked_fill_(batch.observed == 0, self.unobserved_weight)
        classifier = binary_cross_entropy(logits, targets, weights) / logits.shape[1]
        similar = batch if self.graph is None else self.graph.batch(batch)
        yield "encoder_and_classifier", self.model.loss(label_logits, similar) + classifier

    def targets(self, label_logits: Tensor, observed: Tensor) -> Tensor:
        """D = μ·d + (1−μ)·d₂, with d₂ = 1 where observed and p₀ elsewhere; 0 where a label is known to be absent."""
        other = torch.where(observed > 0, 1.0, self.unobserved_target)
        targets = torch.lerp(other.to(label_logits.dtype), torch.sigmoid(label_logits), self.share)
        return torch.where(observed < 0, 0.0, targets)


@dataclass(kw_only=True, eq=False, repr=False)
class SMILEReleasedClassifier(GraphClassifier):
    """SMILE as released: sigmoid soft labels from a directed graph, blended with a constant. Key: ``smile-code``.

    The defaults are the settings that the authors printed for CAL500, rcv1-s1 and mirflickr, and the script's own 25
    epochs; the study ``released`` has those of the other data sets. ``docs/methods/smile-code.md`` explains the
    parameters.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        D on the training set: what the classifier is trained on.

    References
    ----------
    https://github.com/palm-ml/smile and the paper of ``SMILEClassifier``.
    """

    about: ClassVar[dict[str, Any]] = {
        "name": "SMILE as released",
        "paper": "Xu et al., One Positive Label is Sufficient, NeurIPS",
        "year": 2022,
        "assumptions": "near rows share labels; an unknown label is present with probability p0",
        "needs": "three constants chosen by data set",
        "revision": 2,
    }
    # As released.
    pretraining_epochs: int | str = 0
    average_epochs: float = 0.0
    unobserved_target: float = 0.01
    enhancement_share: float = 0.01
    unobserved_weight: float | str = 0.1
    n_neighbors: int = 3
    decoder_hidden: int | str = "features"

    _parameter_constraints: ClassVar[Constraints] = {
        **GraphClassifier._parameter_constraints,
        "unobserved_target": [PROBABILITY],
        "enhancement_share": [PROBABILITY],
        "unobserved_weight": [one_of("auto"), POSITIVE_OR_ZERO],
        "n_neighbors": [COUNT],
        "decoder_hidden": [one_of("features"), COUNT],
        "n_positives": [AT_LEAST_ONE, None],
        "network": [one_of("auto", "labels"), *GraphClassifier._parameter_constraints["network"][1:]],
    }

    #: The product of the graph with X is formed in one piece.
    _reads_from_disk: ClassVar[bool] = False

    def _build_network(self, n_features: int, n_labels: int, generator: torch.Generator) -> nn.Module:
        if isinstance(self.network, str) and self.network == "labels":
            drops = {"dropout": self.dropout, "input_dropout": self.input_dropout}
            return MLP([n_features, n_labels, n_labels], **drops, generator=generator)
        return super()._build_network(n_features, n_labels, generator)

    def _make_objective(self, context: Context) -> Objective:
        n_labels, matrix = context.n_labels, context.graph.matrix
        graph = in_edges(neighbor_graph(matrix, self.n_neighbors, search="exact").neighbors)
        aggregated = as_features(graph @ matrix, self.device)
        encoder = ReleasedEncoder(aggregated, graph, n_labels, context.generator)
        n_features = matrix.shape[1]
        hidden = n_features if isinstance(self.decoder_hidden, str) else self.decoder_hidden
        model = ReleasedModel(encoder, n_features, n_labels, hidden, context.generator)
        weight = self.unobserved_weight
        if isinstance(weight, str):
            weight = 1.0 / max(n_labels - 1, 1)
        return SMILEReleasedObjective(
            context.network, model, self.enhancement_share, self.unobserved_target, float(weight), context.graph
        )

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, SMILEReleasedObjective)
        observed = context.rows.observed
        with torch.no_grad():
            pieces = [
                objective.targets(objective.model.encoder(rows), observed[rows])
                for rows in torch.split(torch.arange(len(observed), device=observed.device), 4096)
            ]
        self.soft_labels_ = torch.cat(pieces).cpu().numpy()

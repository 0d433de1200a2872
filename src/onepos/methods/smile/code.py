"""SMILE as its authors released it (palm-ml/smile, ``train_smile2.py``), which is not quite what the paper says."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from onepos._utils.deadline import time_left
from onepos.exceptions import LabelWarning
from onepos.graph.exact import find_neighbors
from onepos.methods._graph_features import GraphFeatures
from onepos.methods._neural import Context, NeuralClassifier
from onepos.methods.smile.code_networks import ReleasedEncoder, ReleasedModel, in_edges
from onepos.rows.tensors import as_features
from onepos.training import Batch, Objective
from onepos.training.losses import binary_cross_entropy
from onepos.training.networks import MLP

# The settings that the authors of SMILE printed for their twelve data sets (README of palm-ml/smile).


def _setting(unobserved_target: float, enhancement_share: float, unobserved_weight: float | str) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "unobserved_target": unobserved_target,
            "enhancement_share": enhancement_share,
            "unobserved_weight": unobserved_weight,
        }
    )


#: Parameters of ``SMILEReleasedClassifier`` by data set: p₀, μ, and the weight of unobserved entries ("auto": 1/(c−1)).
RELEASED_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "CAL500": _setting(0.01, 0.01, 0.1),
        "image": _setting(0.1, 0.9, 0.7),
        "scene": _setting(0.075, 0.3, 0.5),
        "yeast": _setting(0.05, 0.5, 0.1),
        "corel5k": _setting(0.025, 0.1, 0.1),
        "rcv1-s1": _setting(0.01, 0.01, 0.1),
        "corel16k-s1": _setting(0.001, 0.01, "auto"),
        "delicious": _setting(0.01, 0.01, "auto"),
        "iaprtc12": _setting(0.001, 0.01, "auto"),
        "espgame": _setting(0.025, 0.01, "auto"),
        "mirflickr": _setting(0.01, 0.01, 0.1),
        "tmc2007": _setting(0.025, 0.1, 0.3),
    }
)

#: What the README's commands have in common: ten epochs, hidden layers as wide as there are labels, Adam at 1e-3.
RELEASED_COMMON: Mapping[str, Any] = MappingProxyType(
    {"max_epochs": 10, "network": "labels", "learning_rate": 1e-3, "batch_size": 16}
)


def released_settings(name: str) -> dict[str, Any]:
    """All parameters printed for a data set, its name in any case.

    Examples
    --------
    >>> released_settings("Scene")["unobserved_target"]
    0.075
    """
    by_name = {key.casefold(): key for key in RELEASED_SETTINGS}
    if name.casefold() not in by_name:
        raise ValueError(f"no released settings for {name!r}; known: {', '.join(RELEASED_SETTINGS)}.")
    return {**RELEASED_COMMON, **RELEASED_SETTINGS[by_name[name.casefold()]]}


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


class _FittedSMILEReleased(NeuralClassifier):
    soft_labels_: NDArray[np.float32]


@dataclass(kw_only=True, eq=False, repr=False)
class SMILEReleasedClassifier(_FittedSMILEReleased):
    """SMILE as released: sigmoid soft labels from a directed graph, blended with a constant. Key: ``smile-code``.

    ``SMILEReleasedClassifier.for_dataset("yeast")`` has the settings the authors printed for that data set
    (``RELEASED_SETTINGS``). The defaults are those of CAL500, rcv1-s1 and mirflickr, the most frequent ones, and the
    script's own 25 epochs.

    Parameters
    ----------
    unobserved_target : float
        p₀, the target of an unobserved entry before blending.
    enhancement_share : float
        μ, the share of the recovered d in the classifier's target D = μ·d + (1−μ)·d₂.
    unobserved_weight : float or "auto"
        Weight of unobserved entries in the classifier's loss, the script's ``rate``; "auto" is its ``bias``, 1/(c−1).
    n_neighbors : int
        k of the nearest-neighbour graph.
    reconstruction_weight : float
        γ, the weight of what the decoders reconstruct.
    divergence_weight : float
        δ, the weight of KL′, whose sign error is kept.
    encoder_hidden : int or "labels"
        Hidden width of the graph encoder and of encoder_z; "labels", as released, is c.
    decoder_hidden : int or "features"
        Hidden width of the decoder; "features", as released, is the number of features, at a cost of its square.
    network : "auto", "labels", sequence of int, torch.nn.Module, or callable
        Hidden layers of the classifier. "labels", as released, is one of c units, too few when there are few labels;
        "auto" is one of max(128, c).
    learning_rate, … :
        See ``NeuralClassifier``.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        D on the training set: what the classifier is trained on.
    history_ : History
        Losses and validation scores by epoch.

    References
    ----------
    https://github.com/palm-ml/smile; Xu, Qiao, Lv, Geng, Zhang, "One Positive Label is Sufficient: Single-Positive
    Multi-Label Learning with Label Enhancement", NeurIPS 2022.

    Examples
    --------
    >>> from onepos.methods.smile.code import SMILEReleasedClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = SMILEReleasedClassifier.for_dataset("scene", random_state=0).fit(data.X, data.observed)
    >>> model.max_epochs, model.soft_labels_.shape
    (10, (200, 4))
    """

    unobserved_target: float = 0.01
    enhancement_share: float = 0.01
    unobserved_weight: float | str = 0.1
    n_neighbors: int = 3
    reconstruction_weight: float = 1e-3
    divergence_weight: float = 1.0
    encoder_hidden: int | str = "labels"
    decoder_hidden: int | str = "features"

    #: The product of the graph with X is formed in one piece.
    _reads_from_disk: ClassVar[bool] = False

    _uses_graph_features: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralClassifier._parameter_constraints,
        "network": [StrOptions({"auto", "labels"}), *NeuralClassifier._parameter_constraints["network"][1:]],
        "unobserved_target": [Interval(Real, 0, 1, closed="both")],
        "enhancement_share": [Interval(Real, 0, 1, closed="both")],
        "unobserved_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "reconstruction_weight": [Interval(Real, 0, None, closed="left")],
        "divergence_weight": [Interval(Real, 0, None, closed="left")],
        "encoder_hidden": [StrOptions({"labels"}), Interval(Integral, 1, None, closed="left")],
        "decoder_hidden": [StrOptions({"features"}), Interval(Integral, 1, None, closed="left")],
    }

    @classmethod
    def for_dataset(cls, name: str, **overrides: Any) -> Self:
        """Build the estimator with the settings printed for one of the paper's data sets.

        Parameters
        ----------
        name : str
            A key of ``RELEASED_SETTINGS``, in any case.
        **overrides
            Parameters that replace or complete them.
        """
        return cls(**{**released_settings(name), **overrides})

    def _build_network(self, n_features: int, n_labels: int, generator: torch.Generator) -> nn.Module:
        if isinstance(self.network, str) and self.network == "labels":
            drops = {"dropout": self.dropout, "input_dropout": self.input_dropout}
            return MLP([n_features, n_labels, n_labels], **drops, generator=generator)
        return super()._build_network(n_features, n_labels, generator)

    def _make_objective(self, context: Context) -> Objective:
        n_labels, matrix = context.n_labels, context.graph.matrix
        neighbors = self._neighbors(matrix)
        edges = in_edges(neighbors)
        hidden = n_labels if isinstance(self.encoder_hidden, str) else self.encoder_hidden
        model = ReleasedModel(
            ReleasedEncoder(as_features(edges @ matrix), edges, hidden, n_labels, context.generator),
            torch.from_numpy(neighbors),
            matrix.shape[1],
            n_labels,
            latent_hidden=hidden,
            decoder_hidden=matrix.shape[1] if isinstance(self.decoder_hidden, str) else self.decoder_hidden,
            reconstruction_weight=self.reconstruction_weight,
            divergence_weight=self.divergence_weight,
            generator=context.generator,
        )
        weight = self.unobserved_weight
        if isinstance(weight, str):
            weight = 1.0 / max(n_labels - 1, 1)
        return SMILEReleasedObjective(
            context.network, model, self.enhancement_share, self.unobserved_target, float(weight), context.graph
        )

    def _neighbors(self, matrix: Any) -> NDArray[np.int64]:
        k = min(self.n_neighbors, matrix.shape[0] - 1)
        if k < self.n_neighbors:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} needs more than {matrix.shape[0]} rows; {k} neighbours are used.",
                LabelWarning,
                stacklevel=5,
            )
        if time_left() <= 0:  # nor is there any to train with them
            return np.tile(np.arange(matrix.shape[0], dtype=np.int64)[:, None], (1, k))
        return find_neighbors(matrix, k)[0]

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, SMILEReleasedObjective)
        observed = context.rows.observed
        with torch.no_grad():
            pieces = [
                objective.targets(objective.model.encoder(rows), observed[rows])
                for rows in torch.split(torch.arange(len(observed), device=observed.device), 4096)
            ]
        self.soft_labels_ = torch.cat(pieces).cpu().numpy()

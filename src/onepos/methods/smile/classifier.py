"""SMILE: single-positive multi-label learning with label enhancement (Xu et al., NeurIPS 2022)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from onepos.graph.neighbors import SEARCHES, Search
from onepos.label_sets.thresholds import balanced_weight
from onepos.methods._base import COUNT, COUNT_OR_ZERO, POSITIVE, POSITIVE_OR_ZERO, PROBABILITY, Constraints, one_of
from onepos.methods._neural import Context, GraphClassifier
from onepos.methods._neural_run import GraphFeatures
from onepos.methods.smile.encoder import GraphEncoder, GraphRefresh, aggregated_features, find_graph, with_self
from onepos.methods.smile.enhancement import EnhancementSettings, LabelEnhancement
from onepos.rows.stored import DiskRows
from onepos.training import Batch, Objective, losses
from onepos.training.losses import cardinality_shift

#: With ``warm_up_epochs="auto"``: epochs without scores, and epochs without a better score that end the warm-up.
_WARM_UP_EPOCHS = 3
_WARM_UP_WAITS = 2
#: Rows whose soft labels are computed, and shifted, together after training.
_ROWS_AT_ONCE = 4096


@dataclass
class WarmUp:
    """When the warm-up ends: after ``n_epochs``; if ``waits`` is given, also after so many without a better score."""

    n_epochs: int
    waits: int | None = None

    def end_epoch(self, epoch: int, waited: int | None) -> bool:
        """Note a 0-based epoch, and how long ago the best one was; returns whether the warm-up ends by its score."""
        if self.waits is None or waited is None or epoch >= self.n_epochs:
            return False
        if waited >= self.waits or epoch + 1 == self.n_epochs:
            self.n_epochs = epoch + 1
            return True
        return False


@dataclass(frozen=True)
class RiskSettings:
    """How the classifier uses the recovered soft labels; see ``SMILEClassifier``."""

    warm_up: WarmUp
    bound: float
    keep_observed: bool
    correction: str
    n_positives: float


class SMILEObjective(Objective):
    """Algorithm 1: after an AN warm-up, alternate a step on T_LE with a step on the single-positive risk R̂_sp."""

    def __init__(
        self,
        network: nn.Module,
        enhancement: LabelEnhancement,
        settings: RiskSettings,
        graph: GraphFeatures,
        refresh: GraphRefresh | None,
    ) -> None:
        super().__init__(network)
        self.enhancement = enhancement
        self.settings = settings
        self.graph = graph
        self.refresh = refresh

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch; with ``graph_on="embeddings"``, build a new graph when one is due."""
        super().begin_epoch(epoch)
        if self.refresh is not None:
            self.refresh.begin_epoch(epoch, self.network, self.enhancement.encoder)

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """T_LE for (w₁, w₂, η), then, with the Beta just updated, the risk for θ."""
        yield "label_enhancement", self.enhancement.loss(self.graph.batch(batch))
        logits = self.network(batch.features)
        if self.epoch < self.settings.warm_up.n_epochs:
            yield "risk", losses.assume_negative(logits, batch.observed)
            return
        weights = losses.risk_weights(logits, batch.observed, self.settings.bound)
        yield "risk", losses.single_positive_risk(logits, self.soft_labels(batch), weights)

    def trained_by(self, loss: str) -> list[tuple[list[nn.Parameter], float]]:
        """T_LE trains the variational model, the risk trains the classifier."""
        part = self.enhancement if loss == "label_enhancement" else self.network
        return [(list(part.parameters()), 1.0)]

    def end_epoch(self, waited: int | None) -> bool:
        """Go on from the best epoch of the warm-up when it ends."""
        return self.settings.warm_up.end_epoch(self.epoch, waited)

    def running_state(self) -> dict[str, Tensor]:
        """The length of the warm-up, and the graphs so far, if there are several."""
        length = {"warm_up_epochs": torch.tensor(self.settings.warm_up.n_epochs)}
        return length if self.refresh is None else length | self.refresh.running_state()

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take them back, and put the graph in use into the encoder."""
        graphs = dict(state)
        self.settings.warm_up.n_epochs = int(graphs.pop("warm_up_epochs"))
        if self.refresh is not None:
            self.refresh.resume(graphs, self.enhancement.encoder)

    @torch.no_grad()
    def soft_labels(self, batch: Batch) -> Tensor:
        """d for the rows of a batch: mean of the Beta, corrected for cardinality, known entries put in."""
        return self.corrected(self.enhancement.means(batch.rows), batch.observed)

    def corrected(self, soft: Tensor, observed: Tensor) -> Tensor:
        """Correct d for cardinality, as one batch, and put known entries in."""
        if self.settings.correction == "bayes":
            odds = soft / (1.0 - soft).clamp(min=torch.finfo(soft.dtype).eps)
            soft = ((self.settings.n_positives - 1.0) * odds).clamp(0.0, 1.0)
        elif self.settings.correction == "shift":
            soft = with_mean_sum(soft, observed >= 0, self.settings.n_positives)
        if self.settings.keep_observed:
            soft = torch.maximum(soft, observed.clamp(min=0).to(soft.dtype))
        return soft.masked_fill(observed < 0, 0.0)


def with_mean_sum(soft: Tensor, possible: Tensor, n_positives: float) -> Tensor:
    """Add one number to all logits of soft labels (batch, c), so that rows sum to ``n_positives`` on average.

    Examples
    --------
    >>> soft, possible = torch.tensor([[0.9, 0.5], [0.5, 0.1]]), torch.ones(2, 2, dtype=torch.bool)
    >>> torch.allclose(with_mean_sum(soft, possible, 1.0), soft)  # which they do
    True
    >>> float(with_mean_sum(soft, possible, 1.5).sum(dim=1).mean().round(decimals=3))
    1.5
    """
    logits = torch.logit(soft, eps=1e-6)
    row = (1, -1)
    shift = cardinality_shift(logits.reshape(row), possible.reshape(row), n_positives * len(soft))
    return torch.sigmoid(logits + shift)


@dataclass(kw_only=True, eq=False, repr=False)
class SMILEClassifier(GraphClassifier):
    """SMILE, the paper's method: recover soft labels with a variational graph model, train on the unbiased risk.

    Where the paper is silent the choice is a parameter, and the default is what measured best on validation data.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        Mean number of positive labels per example, m. Single positives do not reveal it. None: taken from a fully
        labelled validation set if there is one, else 2 (fewer if there are only two labels). "estimate": a guess from
        how often the labels of near rows differ (docs/thresholds.md).
    cardinality_correction : {"shift", "weight", "bayes", "none"}
        How m enters. "shift": T_C weights unobserved entries by 1/(c−1), as much as the observed one altogether, and
        one number is added to the logits of E[d] in a batch so that its rows have m labels on average. "weight": T_C
        weights unobserved entries by 1/(2m−1), so that a label with probability ½ is recovered as ½. "bayes": T_C is
        not weighted and the recovered d becomes (m−1)·d/(1−d), clipped to [0, 1]. "none": nothing of this.
    unobserved_weight : float or "auto"
        Overrides the weight of unobserved entries in T_C; "auto" follows ``cardinality_correction``.
    n_neighbors : int
        k of the nearest-neighbour graph.
    self_weight : float
        Weight of the self-loop in the graph convolution: a row counts for this share, its neighbours for the rest.
    graph_metric : {"euclidean", "cosine"}
        Distance of the graph, on the scaled features.
    graph_on : {"features", "embeddings"}
        Whether the graph stays the one of the features (those of X, or ``graph_features`` in ``fit``), or is built
        again after the warm-up from the network's embeddings: what its method ``embed`` returns, or the input of the
        last linear layer. X in ÂX are the features in either case.
    graph_refresh : int or None
        With ``graph_on="embeddings"``: epochs from one graph to the next; None: one after the warm-up, kept.
        ``history_.facts["graph_refreshes"]`` has epoch, size of the embeddings, recall and the share of neighbours
        that stayed.
    graph_search : {"auto", "exact", "approximate"}
        How the neighbours are sought; ``history_.facts["graph"]`` says what was done and at what recall. "auto":
        exactly up to 30,000 rows, above with an index (``pip install 'onepos[large]'``) that finds about 95 in 100.
    cache_folder : str or None
        Folder for the dense neighbourhood means ÂX, as large as X in float32, while ``fit`` runs; None: in memory.
    encoder_hidden : int
        Hidden width of the graph encoder w₁.
    latent_size, decoder_hidden : int
        Size of z; hidden width of w₂, η₁ and η₂.
    elbo_weight : float
        λ in T_LE = −λ·ELBO + T_C.
    prior : (float, float)
        (α̂, β̂) of the Beta prior over soft labels.
    keep_observed : bool
        Set d to 1 where the label was observed.
    risk_weight_bound : float or "auto"
        κ, the bound on the risk weights 1/(f_γ·c); "auto" is 8/c: a row whose observed label the classifier doubts
        weighs at most eight times as much as one where it is certain.
    warm_up_epochs : int or "auto"
        Epochs of assume-negative training of f before its soft labels are used; counted in ``max_epochs``. "auto":
        until the score of held-out rows has not been better for two epochs, at most half of ``max_epochs``; training
        then goes on from the best epoch so far. Without held-out rows, and with ``graph_on="embeddings"``: 3.
    network, learning_rate, … :
        See ``NeuralClassifier``.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        The training set's completed labels: E[d], with 1 where a label was observed.
    n_positives_ : float
        The mean number of positives that was used; ``history_.facts`` says where it came from.
    history_ : History
        Losses and validation scores by epoch.

    Notes
    -----
    Not related to the ``SMiLE`` class of scikit-multilearn-ng (Tan et al., 2017).

    References
    ----------
    Xu, Qiao, Lv, Geng, Zhang, "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022.

    Examples
    --------
    >>> from onepos import SMILEClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = SMILEClassifier(max_epochs=4, random_state=0).fit(data.X, data.observed)
    >>> model.soft_labels_.shape, bool((model.soft_labels_[data.observed == 1] == 1).all())
    ((200, 4), True)
    """

    cardinality_correction: str = "shift"
    unobserved_weight: float | str = "auto"
    n_neighbors: int = 10
    self_weight: float = 0.5
    graph_metric: Literal["euclidean", "cosine"] = "euclidean"
    graph_on: str = "features"
    graph_refresh: int | None = None
    graph_search: Search = "auto"
    cache_folder: str | None = None
    encoder_hidden: int = 128
    latent_size: int = 8
    decoder_hidden: int = 32
    elbo_weight: float = 1e-3
    prior: tuple[float, float] = (1.0, 1.0)
    keep_observed: bool = True
    risk_weight_bound: float | str = "auto"
    warm_up_epochs: int | str = "auto"

    _retired: ClassVar[Mapping[str, str]] = {
        "n_draws": "a step takes one draw",
        "consistency_on": "T_C looks at the mean of the Beta",
        "soft_label": "the classifier is trained on the mean of the Beta",
    }
    _bag_rate_factor: ClassVar[float] = 3.0
    # Soft labels pull away from the observed ones: held-out likelihood falls while the ranking improves.
    _judged_by_likelihood: ClassVar[bool] = False

    _parameter_constraints: ClassVar[Constraints] = {
        "cardinality_correction": [one_of("shift", "weight", "bayes", "none")],
        "unobserved_weight": [one_of("auto"), POSITIVE],
        "n_neighbors": [COUNT],
        "self_weight": [PROBABILITY],
        "graph_metric": [one_of("euclidean", "cosine")],
        "graph_on": [one_of("features", "embeddings")],
        "graph_refresh": [COUNT, None],
        "graph_search": [one_of(*SEARCHES)],
        "cache_folder": [str, None],
        "encoder_hidden": [COUNT],
        "latent_size": [COUNT],
        "decoder_hidden": [COUNT],
        "elbo_weight": [POSITIVE_OR_ZERO],
        "prior": [tuple, list],
        "keep_observed": ["boolean"],
        "risk_weight_bound": [one_of("auto"), POSITIVE],
        "warm_up_epochs": [one_of("auto"), COUNT_OR_ZERO],
    }

    def _make_objective(self, context: Context) -> Objective:
        n_labels, number, weight = context.n_labels, self._set_n_positives(context), 1.0
        if not isinstance(self.unobserved_weight, str):
            weight = float(self.unobserved_weight)
        elif self.cardinality_correction == "weight":
            weight = balanced_weight(number)
        elif self.cardinality_correction == "shift":
            weight = 1.0 / max(n_labels - 1, 1)
        encoder, feature_scale = self._build_encoder(context)
        alpha, beta = map(float, self.prior)
        sizes = self.latent_size, self.decoder_hidden
        settings = EnhancementSettings(float(self.elbo_weight), (alpha, beta), weight, *sizes)
        n_features = context.graph.features.shape[1]
        enhancement = LabelEnhancement(encoder, n_features, n_labels, settings, feature_scale, context.generator)
        bound = 8.0 / n_labels if isinstance(self.risk_weight_bound, str) else float(self.risk_weight_bound)
        warm_up = self._warm_up(context)
        risk = RiskSettings(warm_up, bound, self.keep_observed, self.cardinality_correction, number)
        refresh = self._graph_refresh(encoder, context) if self.graph_on == "embeddings" else None
        return SMILEObjective(context.network, enhancement, risk, context.graph, refresh)

    def _warm_up(self, context: Context) -> WarmUp:
        if not isinstance(self.warm_up_epochs, str):
            return WarmUp(self.warm_up_epochs)
        if context.held is None or self.graph_on == "embeddings":
            return WarmUp(_WARM_UP_EPOCHS)
        return WarmUp(self.max_epochs // 2, _WARM_UP_WAITS)

    def _graph_refresh(self, encoder: GraphEncoder, context: Context) -> GraphRefresh:
        matrix = context.graph.matrix
        neighbors = encoder.neighborhoods[:, 1:].cpu().numpy()
        return GraphRefresh(
            context.network,
            neighbors,
            context.rows,
            lambda rows: find_graph(rows, neighbors.shape[1], self.graph_metric, self.graph_search),
            lambda found: aggregated_features(matrix, found, self.self_weight, self.cache_folder),
            self._warm_up(context).n_epochs,
            self.graph_refresh,
        )

    def _build_encoder(self, context: Context) -> tuple[GraphEncoder, float]:
        """Build the graph over all rows (labels play no part in it), ÂX, and the encoder on top."""
        matrix = context.graph.matrix
        neighbors, self._graph_facts = find_graph(matrix, self.n_neighbors, self.graph_metric, self.graph_search)
        encoder = GraphEncoder(
            aggregated_features(matrix, neighbors, self.self_weight, self.cache_folder),
            with_self(neighbors),
            self.encoder_hidden,
            context.n_labels,
            self_weight=self.self_weight,
            generator=context.generator,
        )
        return encoder, max(_mean_square(matrix), 1e-12) ** 0.5

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, SMILEObjective)
        if objective.refresh is not None:
            objective.refresh.put_into(objective.enhancement.encoder)
            self.history_.facts["graph_refreshes"] = objective.refresh.facts
        rows = context.rows
        with torch.no_grad():
            blocks = torch.split(torch.arange(rows.n_samples, device=rows.observed.device), _ROWS_AT_ONCE)
            pieces = [objective.corrected(objective.enhancement.means(block), rows.observed[block]) for block in blocks]
        self.soft_labels_ = torch.cat(pieces).cpu().numpy()
        self.history_.facts["graph"] = self._graph_facts


def _mean_square(matrix: Any) -> float:
    if isinstance(matrix, DiskRows):
        total = sum(float(np.square(values, dtype=np.float64).sum()) for _, values in matrix.blocks())
        return total / (matrix.shape[0] * matrix.shape[1])
    values = matrix.data if sparse.issparse(matrix) else matrix
    return float(np.square(values, dtype=np.float64).sum() / np.prod(matrix.shape))

"""SMILE: single-positive multi-label learning with label enhancement (Xu et al., NeurIPS 2022)."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from onepos._utils.private_names import Interval, StrOptions
from onepos.exceptions import LabelWarning
from onepos.graph.search import SEARCHES, Search
from onepos.label_sets.cardinality import balanced_weight
from onepos.methods._graph_features import GraphFeatures
from onepos.methods._n_positives import expected_n_positives
from onepos.methods._neural import Context, NeuralClassifier
from onepos.methods._rows import check_embeds
from onepos.methods.capped_softmax import cardinality_shift
from onepos.methods.smile.beta import sample_beta
from onepos.methods.smile.encoder import GraphEncoder
from onepos.methods.smile.enhancement import EnhancementSettings, LabelEnhancement
from onepos.methods.smile.graph import GraphBuilder, GraphRefresh, with_self
from onepos.rows.stored import DiskRows
from onepos.rows.tensors import as_features
from onepos.training import Batch, Objective, losses

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
    soft_label: str
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
        """d for the rows of a batch: mean or draw of the Beta, corrected for cardinality, known entries put in."""
        if self.settings.soft_label == "sample" and self.training:
            log_alpha, log_beta = self.enhancement.log_parameters(batch.rows)
            soft = sample_beta(log_alpha.exp(), log_beta.exp(), self.enhancement.generator)
        else:
            soft = self.enhancement.means(batch.rows)
        return self.corrected(soft, batch.observed)

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


class _FittedSMILE(NeuralClassifier):
    soft_labels_: NDArray[np.float32]
    n_positives_: float


@dataclass(kw_only=True, eq=False, repr=False)
class SMILEClassifier(_FittedSMILE):
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
    n_draws : int
        Monte-Carlo samples M of D per step.
    consistency_on : {"mean", "sample"}
        Whether T_C looks at the posterior mean or, as the paper prints it, at the sample.
    soft_label : {"mean", "sample"}
        What the classifier is trained on: E[d], or a fresh draw.
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

    n_positives: float | str | None = None
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
    n_draws: int = 1
    consistency_on: str = "mean"
    soft_label: str = "mean"
    keep_observed: bool = True
    risk_weight_bound: float | str = "auto"
    warm_up_epochs: int | str = "auto"

    _uses_graph_features: ClassVar[bool] = True
    _bag_rate_factor: ClassVar[float] = 3.0
    # Soft labels pull away from the observed ones: held-out likelihood falls while the ranking improves.
    _judged_by_likelihood: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralClassifier._parameter_constraints,
        "n_positives": [Interval(Real, 1, None, closed="left"), StrOptions({"estimate"}), None],
        "cardinality_correction": [StrOptions({"shift", "weight", "bayes", "none"})],
        "unobserved_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "self_weight": [Interval(Real, 0, 1, closed="both")],
        "graph_metric": [StrOptions({"euclidean", "cosine"})],
        "graph_on": [StrOptions({"features", "embeddings"})],
        "graph_refresh": [Interval(Integral, 1, None, closed="left"), None],
        "graph_search": [StrOptions(set(SEARCHES))],
        "cache_folder": [str, None],
        "encoder_hidden": [Interval(Integral, 1, None, closed="left")],
        "latent_size": [Interval(Integral, 1, None, closed="left")],
        "decoder_hidden": [Interval(Integral, 1, None, closed="left")],
        "elbo_weight": [Interval(Real, 0, None, closed="left")],
        "prior": [tuple, list],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "consistency_on": [StrOptions({"mean", "sample"})],
        "soft_label": [StrOptions({"mean", "sample"})],
        "keep_observed": ["boolean"],
        "risk_weight_bound": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "warm_up_epochs": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
    }

    def _make_objective(self, context: Context) -> Objective:
        n_labels = context.n_labels
        self.n_positives_, self.n_positives_from_ = expected_n_positives(
            self.n_positives, context, single_label=self.single_label_
        )
        weight = 1.0
        if not isinstance(self.unobserved_weight, str):
            weight = float(self.unobserved_weight)
        elif self.cardinality_correction == "weight":
            weight = balanced_weight(self.n_positives_)
        elif self.cardinality_correction == "shift":
            weight = 1.0 / max(n_labels - 1, 1)
        graph = context.graph
        encoder, feature_scale = self._build_encoder(context)
        alpha, beta = self.prior
        enhancement = LabelEnhancement(
            encoder,
            graph.features.shape[1],
            n_labels,
            EnhancementSettings(
                self.elbo_weight,
                (float(alpha), float(beta)),
                self.n_draws,
                self.consistency_on,
                weight,
                self.latent_size,
                self.decoder_hidden,
            ),
            feature_scale,
            context.generator,
        )
        bound = 8.0 / n_labels if isinstance(self.risk_weight_bound, str) else float(self.risk_weight_bound)
        how = self.cardinality_correction, self.n_positives_
        risk = RiskSettings(self._warm_up(context), bound, self.soft_label, self.keep_observed, *how)
        refresh = self._graph_refresh(encoder, context) if self.graph_on == "embeddings" else None
        return SMILEObjective(context.network, enhancement, risk, graph, refresh)

    def _warm_up(self, context: Context) -> WarmUp:
        if not isinstance(self.warm_up_epochs, str):
            return WarmUp(self.warm_up_epochs)
        if context.held is None or self.graph_on == "embeddings":
            return WarmUp(_WARM_UP_EPOCHS)
        return WarmUp(self.max_epochs // 2, _WARM_UP_WAITS)

    def _graph_refresh(self, encoder: GraphEncoder, context: Context) -> GraphRefresh:
        check_embeds(context.network)
        matrix = context.graph.matrix
        neighbors = encoder.neighborhoods[:, 1:].cpu().numpy()
        graphs = self._graph_builder()
        return GraphRefresh(
            neighbors,
            context.rows,
            lambda rows: graphs.neighbors(rows, neighbors.shape[1]),
            lambda neighbors: as_features(graphs.aggregated(matrix, neighbors)),
            self._warm_up(context).n_epochs,
            self.graph_refresh,
        )

    def _graph_builder(self) -> GraphBuilder:
        return GraphBuilder(self.graph_metric, self.graph_search, self.self_weight, self.cache_folder)

    def _build_encoder(self, context: Context) -> tuple[GraphEncoder, float]:
        """Build the graph over all rows (labels play no part in it), ÂX, and the encoder on top."""
        matrix = context.graph.matrix
        k = min(self.n_neighbors, matrix.shape[0] - 1)
        if k < self.n_neighbors:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} needs more than {matrix.shape[0]} rows; {k} neighbours are used.",
                LabelWarning,
                stacklevel=5,
            )
        graphs = self._graph_builder()
        neighbors, self._graph_facts = graphs.neighbors(matrix, k)
        encoder = GraphEncoder(
            as_features(graphs.aggregated(matrix, neighbors)),
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
        self.history_.facts |= {
            "n_positives": self.n_positives_,
            "n_positives_from": self.n_positives_from_,
            "graph": self._graph_facts,
        }


def _mean_square(matrix: Any) -> float:
    if isinstance(matrix, DiskRows):
        total = sum(float(np.square(values, dtype=np.float64).sum()) for _, values in matrix.blocks())
        return total / (matrix.shape[0] * matrix.shape[1])
    values = matrix.data if sparse.issparse(matrix) else matrix
    return float(np.square(values, dtype=np.float64).sum() / np.prod(matrix.shape))

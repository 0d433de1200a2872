"""SMILE: single-positive multi-label learning with label enhancement (Xu et al., NeurIPS 2022), and SMILE-SI."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from onepos._utils.parameters import COUNT, COUNT_OR_ZERO, POSITIVE_OR_ZERO, Constraints, one_of
from onepos.graph.neighbors import SEARCHES, SearchKind, aggregated_rows, neighbor_graph
from onepos.label_sets.thresholds import balanced_weight
from onepos.methods._fit_network import GraphFeatures
from onepos.methods._neural import Context, GraphClassifier, NeuralClassifier
from onepos.methods.smile.encoder import SELF_WEIGHT, GraphEncoder
from onepos.methods.smile.enhancement import LabelEnhancement
from onepos.rows.stored import DiskRows
from onepos.training import Batch, Objective, losses
from onepos.training.losses import cardinality_shift
from onepos.training.networks import outputs_of_all
from onepos.training.objective import Groups, as_features

#: Times c: κ, the bound on the risk weights 1/(f_γ·c). A row whose observed label the classifier doubts weighs at most
#: eight times as much as one where it is certain.
_BOUND = 8.0
#: With ``warm_up_epochs="auto"``: epochs without scores, and epochs without a better score that end the warm-up.
_WARM_UP_EPOCHS = 3
_WARM_UP_WAITS = 2
#: Rows whose soft labels are computed, and shifted, together after training.
_ROWS_AT_ONCE = 4096


class RiskObjective(Objective):
    """After an AN warm-up, the single-positive risk R̂_sp; subclasses have ``soft_labels``."""

    def __init__(self, network: nn.Module, warm_up_epochs: int) -> None:
        super().__init__(network)
        self.warm_up_epochs = warm_up_epochs

    def risk(self, batch: Batch) -> Tensor:
        """AN in the warm-up, then R̂_sp."""
        logits = self.network(batch.features)
        if self.epoch < self.warm_up_epochs:
            return losses.assume_negative(logits, batch.observed)
        weights = losses.risk_weights(logits, batch.observed, _BOUND / logits.shape[1])
        return losses.single_positive_risk(logits, self.soft_labels(batch, logits), weights)

    def soft_labels(self, batch: Batch, logits: Tensor) -> Tensor:
        """d for the rows of a batch, (batch, c), without gradient."""
        raise NotImplementedError(f"{type(self).__name__} must say what its soft labels are.")


def with_known(soft: Tensor, observed: Tensor) -> Tensor:
    """Return d with 1 where a label was observed and 0 where it is known to be absent."""
    return torch.where(observed > 0, 1.0, soft).masked_fill(observed < 0, 0.0)


class SMILEObjective(RiskObjective):
    """Algorithm 1: after an AN warm-up, alternate a step on T_LE with a step on the single-positive risk R̂_sp.

    The warm-up ends after ``warm_up_epochs``; with ``warm_up_waits``, also after so many without a better score.
    """

    def __init__(
        self,
        network: nn.Module,
        enhancement: LabelEnhancement,
        graph: GraphFeatures,
        *,
        warm_up_epochs: int,
        warm_up_waits: int | None,
        sum_of_soft_labels: float | None,
    ) -> None:
        super().__init__(network, warm_up_epochs)
        self.enhancement, self.graph = enhancement, graph
        self.warm_up_waits, self.sum_of_soft_labels = warm_up_waits, sum_of_soft_labels

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """T_LE for (w₁, w₂, η), then, with the Beta just updated, the risk for θ."""
        yield "label_enhancement", self.enhancement.loss(self.graph.batch(batch))
        yield "risk", self.risk(batch)

    def trained_by(self, loss: str) -> Groups:
        """T_LE trains the variational model, the risk trains the classifier."""
        part = self.enhancement if loss == "label_enhancement" else self.network
        return [{"params": list(part.parameters())}]

    def end_epoch(self, waited: int | None) -> bool:
        """End the warm-up if its score says so, and go on from its best epoch."""
        n_epochs = self.epoch + 1
        if self.warm_up_waits is None or waited is None or n_epochs > self.warm_up_epochs:
            return False
        if waited < self.warm_up_waits and n_epochs < self.warm_up_epochs:
            return False
        self.warm_up_epochs = n_epochs
        return True

    def running_state(self) -> dict[str, Tensor]:
        """The length of the warm-up."""
        return {"warm_up_epochs": torch.tensor(self.warm_up_epochs)}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take it back."""
        self.warm_up_epochs = int(state["warm_up_epochs"])

    @torch.no_grad()
    def soft_labels(self, batch: Batch, logits: Tensor) -> Tensor:
        """Mean of the Beta, corrected for cardinality over the batch, with known entries."""
        return with_known(self.corrected(batch.rows, batch.observed), batch.observed)

    def corrected(self, rows: Tensor, observed: Tensor) -> Tensor:
        """Mean of the Beta of the given rows, corrected for cardinality as one batch."""
        soft = self.enhancement.means(rows)
        if self.sum_of_soft_labels is None:
            return soft
        return with_mean_sum(soft, observed >= 0, self.sum_of_soft_labels)


def with_mean_sum(soft: Tensor, possible: Tensor, n_positives: float) -> Tensor:
    """Add one number to all logits of soft labels (batch, c), so that rows sum to ``n_positives`` on average."""
    logits = torch.logit(soft, eps=1e-6)
    row = (1, -1)
    shift = cardinality_shift(logits.reshape(row), possible.reshape(row), n_positives * len(soft))
    return torch.sigmoid(logits + shift)


@dataclass(kw_only=True, eq=False, repr=False)
class SMILEClassifier(GraphClassifier):
    """SMILE, the paper's method: recover soft labels with a variational graph model, train on the unbiased risk.

    Where the paper is silent, the choice is what measured best on validation data: a parameter if a study shows that it
    matters, else a constant (docs/methods/smile.md).

    Parameters
    ----------
    n_positives : float, "estimate" or None
        Mean number of positive labels per example, m. Single positives do not reveal it. None: taken from a fully
        labelled validation set if there is one, else 2 (fewer if there are only two labels). "estimate": a guess from
        how often the labels of near rows differ (docs/thresholds.md).
    cardinality_correction : {"shift", "weight", "none"}
        How m enters. "shift": T_C weights unobserved entries by 1/(c−1), as much as the observed one altogether, and
        one number is added to the logits of E[d] in a batch so that its rows have m labels on average. "weight": T_C
        weights unobserved entries by 1/(2m−1), so that a label with probability ½ is recovered as ½. "none": neither.
    n_neighbors : int
        k of the nearest-neighbour graph of the features: those of X, or ``graph_features`` in ``fit``.
    graph_search : {"auto", "exact", "approximate"}
        How the neighbours are sought; ``history_.facts["graph"]`` says what was done and at what recall. "auto":
        exactly up to 30,000 rows, above with an index (``pip install 'onepos[large]'``) that finds about 95 in 100.
    cache_folder : str or None
        Folder for the dense neighbourhood means ÂX, as large as X in float32, while ``fit`` runs; None: in memory.
    elbo_weight : float
        λ in T_LE = −λ·ELBO + T_C.
    warm_up_epochs : int or "auto"
        Epochs of assume-negative training of f before its soft labels are used; counted in ``max_epochs``. "auto":
        until the score of held-out rows has not been better for two epochs, at most half of ``max_epochs``; training
        then goes on from the best epoch so far. Without held-out rows: 3. Other parameters: ``NeuralClassifier``;
        ``batch_size="auto"`` is the power of 2 nearest to a twelfth of few rows, from 16 to 128.

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
    n_neighbors: int = 10
    graph_search: SearchKind = "auto"
    cache_folder: str | None = None
    elbo_weight: float = 1e-3
    warm_up_epochs: int | str = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        **GraphClassifier._parameter_constraints,
        "cardinality_correction": [one_of("shift", "weight", "none")],
        "n_neighbors": [COUNT],
        "graph_search": [one_of(*SEARCHES)],
        "cache_folder": [str, None],
        "elbo_weight": [POSITIVE_OR_ZERO],
        "warm_up_epochs": [one_of("auto"), COUNT_OR_ZERO],
    }

    # Soft labels pull away from the observed ones: held-out likelihood falls while the ranking improves.
    _learns_likelihood: ClassVar[bool] = False
    # T_LE has many small operations, and rows of one batch share neighbours. Ranking is as good or better.
    _batch_share: ClassVar[int] = 12

    def _make_objective(self, context: Context) -> Objective:
        n_labels, number, weight = context.n_labels, self._set_n_positives(context), 1.0
        if self.cardinality_correction == "weight":
            weight = balanced_weight(number)
        elif self.cardinality_correction == "shift":
            weight = 1.0 / max(n_labels - 1, 1)
        # The graph is over all rows: labels play no part in it.
        matrix = context.graph.matrix
        neighbors, self._graph_facts = neighbor_graph(matrix, self.n_neighbors, search=self.graph_search)
        aggregated = as_features(aggregated_rows(matrix, neighbors, SELF_WEIGHT, self.cache_folder), self.device)
        enhancement = LabelEnhancement(
            GraphEncoder(aggregated, neighbors, n_labels, context.generator),
            context.graph.features.shape[1],
            n_labels,
            elbo_weight=float(self.elbo_weight),
            unobserved_weight=weight,
            feature_scale=max(_mean_square(matrix), 1e-12) ** 0.5,
            generator=context.generator,
        )
        n_epochs, waits = self.warm_up_epochs, None
        if isinstance(n_epochs, str) and context.held is None:
            n_epochs = _WARM_UP_EPOCHS
        elif isinstance(n_epochs, str):
            n_epochs, waits = self.max_epochs // 2, _WARM_UP_WAITS
        return SMILEObjective(
            context.network,
            enhancement,
            context.graph,
            warm_up_epochs=n_epochs,
            warm_up_waits=waits,
            sum_of_soft_labels=number if self.cardinality_correction == "shift" else None,
        )

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, SMILEObjective)
        observed = context.rows.observed
        with torch.no_grad():
            parts = torch.split(torch.arange(len(observed), device=observed.device), _ROWS_AT_ONCE)
            soft = [with_known(objective.corrected(part, observed[part]), observed[part]) for part in parts]
        self.soft_labels_ = torch.cat(soft).cpu().numpy()
        self.history_.facts["graph"] = self._graph_facts


def _mean_square(matrix: Any) -> float:
    if isinstance(matrix, DiskRows):
        total = sum(float(np.square(values, dtype=np.float64).sum()) for _, values in matrix.blocks())
        return total / (matrix.shape[0] * matrix.shape[1])
    values = matrix.data if sparse.issparse(matrix) else matrix
    return float(np.square(values, dtype=np.float64).sum() / np.prod(matrix.shape))


class SMILESIObjective(RiskObjective):
    """After an AN warm-up, the single-positive risk R̂_sp with d = f(x), which carries no gradient."""

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        yield "risk", self.risk(batch)

    def soft_labels(self, batch: Batch, logits: Tensor) -> Tensor:
        """f(x) of the network as it is, with known entries."""
        return with_known(logits.detach().sigmoid(), batch.observed)


@dataclass(kw_only=True, eq=False, repr=False)
class SMILESIClassifier(NeuralClassifier):
    """SMILE without label enhancement: the classifier's own confidence f_j(x) is the soft label d_j. Key: ``smile-si``.

    The ablation of the paper of ``SMILEClassifier``, a self-training baseline: what SMILE gains over it, the recovered
    labels are worth. The released script blends f with a constant instead, as ``SMILEReleasedClassifier`` does with d.

    Parameters
    ----------
    warm_up_epochs : int
        Epochs of assume-negative training before f is its own teacher; counted in ``max_epochs``. Other parameters:
        ``NeuralClassifier``.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        The trained classifier's f(x) on the training set, with 1 where a label was observed.

    Examples
    --------
    >>> from onepos.methods.smile.classifier import SMILESIClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = SMILESIClassifier(max_epochs=4, random_state=0).fit(data.X, data.observed)
    >>> model.soft_labels_.shape, bool((model.soft_labels_[data.observed == 1] == 1).all())
    ((200, 4), True)
    """

    warm_up_epochs: int = 3

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "warm_up_epochs": [COUNT_OR_ZERO],
    }

    _learns_likelihood: ClassVar[bool] = False

    def _make_objective(self, context: Context) -> Objective:
        return SMILESIObjective(context.network, self.warm_up_epochs)

    def _finish(self, objective: Objective, context: Context) -> None:
        confidence = outputs_of_all(objective.network, context.rows).sigmoid()
        self.soft_labels_ = with_known(confidence, context.rows.observed).cpu().numpy()

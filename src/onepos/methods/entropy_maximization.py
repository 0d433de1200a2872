"""EM and EM+APL: unknown labels are kept undecided, later given pseudo-labels (Zhou et al., ECCV 2022)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from onepos._utils.parameters import COUNT_OR_ZERO, POSITIVE_OR_ZERO, PROBABILITY, Constraints
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective
from onepos.training.networks import outputs_of_all


def binary_entropy(logits: Tensor) -> Tensor:
    """H(p) = −p log p − (1−p) log(1−p) of every entry, in nats; p = σ(logits). Exact zero at the far ends."""
    return torch.sigmoid(logits) * functional.softplus(-logits) + torch.sigmoid(-logits) * functional.softplus(logits)


def entropy_maximization(
    logits: Tensor,
    observed: Tensor,
    entropy_weight: float,
    *,
    pseudo_labels: Tensor | None = None,
    pseudo_label_weight: float = 0.0,
) -> Tensor:
    """EM: −log p where observed, −α·H(p) where unknown. EM+APL: β·BCE(p, ŷ) where there is a pseudo-label ŷ.

    Entries known to be absent add −log(1−p); the paper has none. ``pseudo_labels`` are ŷ in [0, 1], NaN where an
    unknown entry has none; what is known goes before it.
    """
    known, unknown = observed != 0, observed == 0
    targets = (observed > 0).to(logits.dtype)
    weights = known.to(logits.dtype)
    if pseudo_labels is not None:
        guessed = unknown & ~torch.isnan(pseudo_labels)
        targets = torch.where(guessed, pseudo_labels.to(logits.dtype), targets)
        weights = torch.where(guessed, pseudo_label_weight, weights)
        unknown = unknown & ~guessed
    cross_entropy = functional.binary_cross_entropy_with_logits(logits, targets, weights, reduction="sum")
    return (cross_entropy - entropy_weight * (binary_entropy(logits) * unknown).sum()) / logits.shape[0]


def freeze_lowest(pseudo_labels: Tensor, probabilities: Tensor, open_entries: Tensor, portion: Tensor) -> None:
    """Write p into the pseudo-labels of each label's ``portion`` rows of lowest p among its open entries, in place."""
    ranked, rows = probabilities.masked_fill(~open_entries, torch.inf).sort(dim=0, stable=True)
    chosen = torch.arange(len(rows), device=rows.device)[:, None] < torch.minimum(portion, open_entries.sum(dim=0))
    where, label = rows[chosen], chosen.nonzero()[:, 1]
    pseudo_labels[where, label] = ranked[chosen].to(pseudo_labels.dtype)


class EntropyMaximizationObjective(Objective):
    """EM+APL. Each of k epochs that are due gives pseudo-labels to ⌊share·N_j/k⌋ of the N_j unknown rows of label j."""

    running = ("pseudo_labels",)
    pseudo_labels: Tensor | None

    def __init__(self, context: Context, *, share: float, due: range, **weights: float) -> None:
        super().__init__(context.network)
        rows, label_scores = context.rows, context.label_scores
        self.rows, self.weights = rows, weights
        self.due = due if share > 0 else range(0)
        pseudo_labels = None if label_scores is None else label_scores.clone()  # further ones are written into them
        if pseudo_labels is None and share > 0:
            pseudo_labels = torch.full(rows.observed.shape, torch.nan, device=rows.observed.device)
        self.register_buffer("pseudo_labels", pseudo_labels, persistent=False)
        n_unknown = (rows.observed[rows.trainable] == 0).sum(dim=0)
        self.portion = (share * n_unknown / max(len(self.due), 1) + 1e-9).floor().long()

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch and, after the warm-up, make the next portion of pseudo-labels."""
        super().begin_epoch(epoch)
        if epoch not in self.due:
            return
        assert self.pseudo_labels is not None
        trainable = self.rows.trainable
        labels = self.pseudo_labels[trainable]
        unlabelled = (self.rows.observed[trainable] == 0) & torch.isnan(labels)
        probabilities = torch.sigmoid(outputs_of_all(self.network, self.rows)[trainable])
        freeze_lowest(labels, probabilities, unlabelled, self.portion)
        self.pseudo_labels[trainable] = labels

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        guessed = None if self.pseudo_labels is None else self.pseudo_labels[batch.rows]
        loss = entropy_maximization(logits, batch.observed, pseudo_labels=guessed, **self.weights)
        yield "entropy_maximization", loss


@dataclass(kw_only=True, eq=False, repr=False)
class EntropyMaximizationClassifier(NeuralClassifier):
    """Entropy maximisation: keep the probability of an unknown label undecided.

    Keys: ``em`` (the defaults), ``em-apl`` (``pseudo_label_share=0.9``: after a warm-up, each label's least likely rows
    get the network's p for a pseudo-label, a portion per epoch). Zhou et al., "Acknowledging the Unknown for
    Multi-Label Learning with Single Positive Labels", ECCV 2022.

    Parameters
    ----------
    entropy_weight : float
        α, weight of the entropy of unknown labels.
    pseudo_label_share : float
        Share of each label's unknown rows that has a pseudo-label by the last epoch; 0: none are made.
    pseudo_label_weight : float
        β, weight of entries with a pseudo-label.
    warm_up_epochs : int
        T_w, epochs before the first pseudo-labels. Other parameters: ``NeuralClassifier``.
    """

    entropy_weight: float = 0.1
    pseudo_label_share: float = 0.0
    pseudo_label_weight: float = 0.4
    warm_up_epochs: int = 5

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "entropy_weight": [POSITIVE_OR_ZERO],
        "pseudo_label_share": [PROBABILITY],
        "pseudo_label_weight": [POSITIVE_OR_ZERO],
        "warm_up_epochs": [COUNT_OR_ZERO],
    }

    _learns_likelihood: ClassVar[bool] = False

    # Scores are pseudo-labels from the beginning.
    _takes: ClassVar[tuple[str, ...]] = ("label_scores",)

    def _make_objective(self, context: Context) -> Objective:
        return EntropyMaximizationObjective(
            context,
            share=self.pseudo_label_share,
            due=range(self.warm_up_epochs, self.max_epochs),
            entropy_weight=self.entropy_weight,
            pseudo_label_weight=self.pseudo_label_weight,
        )

"""ROLE and EPR: online label estimation, and expected positive regularisation alone (Cole et al., CVPR 2021)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from onepos._utils.parameters import POSITIVE_OR_ZERO, Constraints
from onepos.methods._neural import Context, GraphClassifier
from onepos.training import Batch, LossObjective, Objective, TrainingRows
from onepos.training.losses import binary_cross_entropy
from onepos.training.networks import outputs_of_all
from onepos.training.objective import Groups


def expected_positive(logits: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """EPR(a) = −Σ_{s=1} log a / B + λ·(k̂ − k)²/c, with a = σ(logits) and k̂ the batch's mean of Σ_j a_j.

    This is the published loss times c. Entries known to be absent add −log(1 − a); the paper has none.
    """
    known = observed.to(logits.dtype)
    seen = binary_cross_entropy(logits, known.clamp(min=0), known.abs())
    excess = torch.sigmoid(logits).sum() / logits.shape[0] - n_positives
    return seen + weight * excess.square() / logits.shape[1]


def agreement(logits: Tensor, targets: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """ℓ(a | b) = BCE(a, sg b) + EPR(a), with a = σ(logits) and b = ``targets``."""
    entropy = binary_cross_entropy(logits, targets.detach())
    return entropy + expected_positive(logits, observed, n_positives, weight)


def role(logits: Tensor, label_logits: Tensor, observed: Tensor, n_positives: float, weight: float) -> Tensor:
    """L = ½·[ ℓ(p | sg ŷ) + ℓ(ŷ | sg p) ], with p = σ(logits) and ŷ = σ(label_logits)."""
    by_network = agreement(logits, torch.sigmoid(label_logits), observed, n_positives, weight)
    by_labels = agreement(label_logits, torch.sigmoid(logits), observed, n_positives, weight)
    return 0.5 * (by_network + by_labels)


_KNOWN = math.log(0.995 / 0.005)  # Θ starts at ± this where the label is known …
_SPREAD = math.log(0.6 / 0.4)  # … and uniformly within ± this where it is not: σ(Θ) in (0.4, 0.6)


class ROLEObjective(Objective):
    """L = ½·[ ℓ(p | sg ŷ) + ℓ(ŷ | sg p) ]: the network learns from the labels, the labels from the network."""

    def __init__(self, network: nn.Module, label_logits: Tensor, label_rate_factor: float, **settings: float) -> None:
        super().__init__(network)
        #: Θ, one logit for each training entry.
        self.label_logits = nn.Parameter(label_logits)
        self.label_rate_factor, self.settings = label_rate_factor, settings

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, on which network and Θ take a step together."""
        label_logits = self.label_logits.index_select(0, batch.rows)
        yield "role", role(self.network(batch.features), label_logits, batch.observed, **self.settings)

    def trained_by(self, loss: str) -> Groups:
        """Network and Θ; weight decay would pull every label towards ½."""
        labels = {"params": [self.label_logits], "lr": self.label_rate_factor, "weight_decay": 0.0}
        return [{"params": list(self.network.parameters())}, labels]

    @torch.no_grad()
    def soft_labels(self, rows: TrainingRows) -> Tensor:
        """ŷ = σ(Θ) of all rows; rows that were not trained on get p at unknown entries."""
        has_labels = rows.observed != 0
        has_labels[rows.trainable] = True
        return torch.where(has_labels, self.label_logits, outputs_of_all(self.network, rows)).sigmoid()


def initial_label_logits(observed: Tensor, generator: torch.Generator, scores: Tensor | None = None) -> Tensor:
    """Θ as published: ± logit .995 where known, else uniform within ± logit .6, or at the logit of a score."""
    logits = torch.empty(observed.shape, device=observed.device).uniform_(-_SPREAD, _SPREAD, generator=generator)
    if scores is not None:
        logits = torch.where(torch.isnan(scores), logits, torch.logit(scores).clamp(-_KNOWN, _KNOWN))
    return torch.where(observed == 0, logits, _KNOWN * observed.to(logits.dtype))


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectedPositiveClassifier(GraphClassifier):
    """Expected positive regularisation: fit what was observed, keep k positives per row on average. Key: ``epr``.

    Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        k, the mean number of positive labels per row; see ``ROLEClassifier``.
    regularizer_weight : float
        λ of ((k̂ − k)/c)². Other parameters: ``NeuralClassifier``.

    Attributes
    ----------
    n_positives_ : float
        The k that was used; ``history_.facts`` says where it came from.

    Examples
    --------
    >>> from onepos.methods.role import ExpectedPositiveClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = ExpectedPositiveClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.n_positives_
    2.0
    """

    regularizer_weight: float = 1.0

    _parameter_constraints: ClassVar[Constraints] = {
        **GraphClassifier._parameter_constraints,
        "regularizer_weight": [POSITIVE_OR_ZERO],
    }

    _learns_likelihood: ClassVar[bool] = False

    def _make_objective(self, context: Context) -> Objective:
        number = self._set_n_positives(context)
        loss = partial(expected_positive, n_positives=number, weight=self.regularizer_weight)
        return LossObjective(context.network, "expected_positive", loss)


@dataclass(kw_only=True, eq=False, repr=False)
class ROLEClassifier(ExpectedPositiveClassifier):
    """ROLE: estimate every training label online, together with the network, under an expected number of positives.

    Key: ``role``. A matrix Θ holds one logit for each training entry. Network and Θ are each pulled towards the other's
    sigmoid, towards what was observed, and towards k positives per row on average. From the paper of
    ``ExpectedPositiveClassifier``.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        k, the mean number of positive labels per example. None: taken from a fully labelled validation set if there is
        one, else 2 (fewer if there are only two labels); a 1-D y has one. "estimate": √(1/A), with A the rate at which
        nearest neighbours show the same label; assumes that the observed label is drawn uniformly from the row's
        positives and is a guess between two bounds, see ``docs/methods/role.md``.
    regularizer_weight : float
        λ of ((k̂ − k)/c)²; 0 leaves the number of positives free.
    label_rate_factor : float
        Learning rate of Θ over that of the network. Other parameters: ``NeuralClassifier``. Weight decay acts on the
        network only.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        σ(Θ) at the restored epoch. Rows held out for validation or without an observed positive have no trained Θ. They
        get the network's probability, with 0.995 and 0.005 at known entries.
    n_positives_ : float
        See ``ExpectedPositiveClassifier``.

    Examples
    --------
    >>> from onepos.methods.role import ROLEClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = ROLEClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.soft_labels_.shape, bool((model.soft_labels_[data.observed == 1] > 0.9).all())
    ((200, 4), True)
    """

    label_rate_factor: float = 10.0

    _parameter_constraints: ClassVar[Constraints] = {
        **ExpectedPositiveClassifier._parameter_constraints,
        "label_rate_factor": [POSITIVE_OR_ZERO],
    }

    # Θ starts at the logits of the scores.
    _takes: ClassVar[tuple[str, ...]] = ("graph_features", "label_scores")

    def _make_objective(self, context: Context) -> Objective:
        start = initial_label_logits(context.rows.observed, context.generator, context.label_scores)
        settings = {"n_positives": self._set_n_positives(context), "weight": self.regularizer_weight}
        return ROLEObjective(context.network, start, self.label_rate_factor, **settings)

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, ROLEObjective)
        self.soft_labels_ = objective.soft_labels(context.rows).cpu().numpy()

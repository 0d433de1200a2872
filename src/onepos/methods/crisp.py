"""CRISP: class priors estimated from single positives, and the risk that they make computable (Liu et al., 2025)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos._utils import storage
from onepos._utils.parameters import COUNT, COUNT_OR_ZERO, FRACTION, POSITIVE_OR_ZERO, Constraints
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective, TrainingRows
from onepos.training.losses import assume_negative
from onepos.training.networks import outputs_of_all


def class_prior(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], *, confidence: float = 0.01, slack: float = 0.01
) -> float:
    """Estimate the share of rows that have a label, from f(x) of all rows and the rows on which it was observed.

    ``confidence`` is δ, ``slack`` is τ of the paper. The estimate is at least the share of rows on which the label was
    observed.
    """
    n_samples, n_positive = len(scores), int(positive.sum())
    if n_positive == 0:
        return 0.0
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    # A threshold takes all rows of equal score or none: count up to the last row of each score.
    last = np.append(ranked[1:] != ranked[:-1], True)
    above = (np.flatnonzero(last) + 1) / n_samples
    above_positive = np.cumsum(positive[order])[last] / n_positive
    counted = above_positive > 0
    above, above_positive = above[counted], above_positive[counted]
    radius = math.sqrt(math.log(4.0 / confidence) / 2.0) * (n_samples**-0.5 + n_positive**-0.5)
    best = int(np.argmin((above + (1.0 + slack) * radius) / above_positive))
    return float(np.clip(above[best] / above_positive[best], n_positive / n_samples, 1.0))


def class_prior_risk(logits: Tensor, observed: Tensor, priors: Tensor, weights: Tensor) -> Tensor:
    """R̂ = Σ_j [ (2π_j/n_j) Σ_{i∈S_j} (1 − f_ij) + | mean_i f_ij − π_j | ], on a batch; f = σ(logits).

    Entries known to be absent add their own absolute loss f; the paper has none. ``weights``, (batch, n_labels), are
    2π̂_j·n/n_j at the observed entries and 0 elsewhere.
    """
    scores = torch.sigmoid(logits)
    seen = (weights * torch.sigmoid(-logits)).sum() / logits.shape[0]
    absent = (scores * (observed < 0)).sum() / logits.shape[0]
    return seen + (scores.mean(dim=0) - priors).abs().sum() + absent


class CRISPObjective(Objective):
    """After an AN warm-up: estimate π̂ from the network's scores, then minimise the risk that π̂ gives."""

    running = ("weights",)
    priors: Tensor
    weights: Tensor

    def __init__(self, network: nn.Module, rows: TrainingRows, method: "CRISPClassifier") -> None:
        super().__init__(network)
        self.rows, self.warm_up_epochs, self.refresh_epochs = rows, method.warm_up_epochs, method.refresh_epochs
        self.options = {"confidence": method.confidence, "slack": method.slack}
        self.one_class = method.single_label_
        zeros = torch.zeros(rows.observed.shape[1], device=rows.observed.device)
        #: Part of the state, so that the restored epoch has its own.
        self.register_buffer("priors", zeros)
        self.register_buffer("weights", zeros[:0], persistent=False)

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch and estimate the priors when they are due."""
        super().begin_epoch(epoch)
        since = epoch - self.warm_up_epochs
        if since >= 0 and since % self.refresh_epochs == 0:
            self.estimate()

    def estimate(self) -> None:
        """Set priors, and weights 2π̂·n/n_j of the observed entries, from the network as it is."""
        trainable = self.rows.trainable
        positive = (self.rows.observed[trainable] > 0).cpu().numpy()
        if self.one_class:  # counting is enough
            priors = positive.mean(axis=0)
        else:
            scores = torch.sigmoid(outputs_of_all(self.network, self.rows)[trainable]).cpu().numpy()
            priors = np.array([class_prior(f, s, **self.options) for f, s in zip(scores.T, positive.T, strict=True)])
        by_label = 2.0 * priors * len(positive) / np.maximum(positive.sum(axis=0), 1)
        self.weights = torch.zeros(self.rows.observed.shape, device=trainable.device)
        self.weights[trainable] = torch.from_numpy(positive * by_label).to(self.weights)
        self.priors = torch.from_numpy(priors).to(self.weights)

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        if self.epoch < self.warm_up_epochs:
            yield "risk", assume_negative(logits, batch.observed)
        else:
            yield "risk", class_prior_risk(logits, batch.observed, self.priors, self.weights[batch.rows])

    def describe_epoch(self) -> dict[str, float]:
        """Σ_j π̂_j, the number of positives that the priors imply; 0 before there are any."""
        return {"n_positives": float(self.priors.sum())}


@dataclass(kw_only=True, eq=False, repr=False)
class CRISPClassifier(NeuralClassifier):
    """CRISP: estimate how often each label is there, then minimise the risk that this makes computable. Key: ``crisp``.

    Liu et al., "Can Class-Priors Help Single-Positive Multi-Label Learning?", arXiv 2309.13886, NeurIPS 2025. Its
    Equation (8), a bias on the logits of rare labels, is left out: its form is not public. For a 1-D y, where each row
    has one class, the priors are the observed shares.

    Parameters
    ----------
    warm_up_epochs : int
        Epochs of assume-negative training before the first estimate; counted in ``max_epochs``.
    refresh_epochs : int
        Epochs from one estimate of the priors to the next.
    confidence, slack : float
        δ and τ of the estimator: how sure, and how careful, the choice of its threshold is. Other parameters:
        ``NeuralClassifier``.

    Attributes
    ----------
    class_priors_ : float64 array of shape (n_labels,)
        π̂ of the restored epoch; of the trained network if that epoch lies in the warm-up. ``n_positives`` in
        ``history_`` is their sum.

    Examples
    --------
    >>> from onepos.methods.crisp import CRISPClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = CRISPClassifier(max_epochs=5, random_state=0).fit(data.X, data.observed)
    >>> bool((model.class_priors_ >= data.observed.mean(axis=0)).all())
    True
    """

    _stored: ClassVar[storage.Rules] = {"class_priors_": storage.Array("labels", "f8", 0, 1)}

    warm_up_epochs: int = 3
    refresh_epochs: int = 1
    confidence: float = 0.01
    slack: float = 0.01

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "warm_up_epochs": [COUNT_OR_ZERO],
        "refresh_epochs": [COUNT],
        "confidence": [FRACTION],
        "slack": [POSITIVE_OR_ZERO],
    }

    _learns_likelihood: ClassVar[bool] = False

    def _make_objective(self, context: Context) -> Objective:
        return CRISPObjective(context.network, context.rows, self)

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, CRISPObjective)
        if not bool(objective.priors.any()):
            objective.estimate()
        self.class_priors_ = objective.priors.cpu().numpy().astype(np.float64)

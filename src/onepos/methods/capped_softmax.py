"""Capped softmax: the likelihood of the observed label among m that are there."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from onepos.label_sets.pooling import marginal_logits
from onepos.methods._base import AT_LEAST_ONE, Constraints, State, one_of
from onepos.methods._n_positives import expected_n_positives
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective
from onepos.training.losses import with_gradients

_MOST_STEPS = 100


def capped_likelihood(logits: Tensor, observed: Tensor, n_positives: float) -> Tensor:
    """L = −1/B Σ_i log f_iγ(i), with f = σ(z + b(z)) and Σ_j f_ij = m; a row's several observed labels share it.

    Labels known to be absent have no part in the sum. For m → 0 this is the cross-entropy of a softmax, less log m.
    ``n_positives`` is m, at least half a label less than a row may have.

    Examples
    --------
    >>> z, seen = torch.tensor([[9.0, 9.0, -9.0]]), torch.tensor([[1, 0, 0]])  # f is about (¾, ¾, 0)
    >>> round(float(capped_likelihood(z, seen, 1.5).exp()), 2)
    1.33
    """
    value, slopes = likelihood_and_slopes(logits.detach(), observed, n_positives)
    return with_gradients(value, {logits: slopes})


@torch.no_grad()
def likelihood_and_slopes(logits: Tensor, observed: Tensor, n_positives: float) -> tuple[Tensor, Tensor]:
    """L and its derivative by the logits, of the same arguments.

    ∂b/∂z_j = −f_j(1−f_j) / Σ_k f_k(1−f_k), from the derivative of Σ f = m.
    """
    positives = observed.clamp(min=0).to(logits.dtype)
    share = positives / positives.sum(dim=1, keepdim=True).clamp_(min=1.0)
    possible = observed >= 0
    levels = logits + cardinality_shift(logits, possible, n_positives)
    present, absent = functional.logsigmoid(levels), functional.logsigmoid(-levels)
    doubt = share * absent.exp()  # of the observed label, 1 − f
    # In logarithms ∂b/∂z has no 0/0.
    moved = torch.softmax((present + absent).masked_fill_(~possible, -torch.inf), dim=1)
    slopes = (moved * doubt.sum(dim=1, keepdim=True)).sub_(doubt).div_(len(logits))
    return -(share * present).sum() / len(logits), slopes


def cardinality_shift(logits: Tensor, possible: Tensor, n_positives: float) -> Tensor:
    """b with Σ_j σ(z_j + b) = m in every row, (batch, 1).

    Newton's steps for log Σ σ = log m, which is nearly linear in b while most f are small, with halves of the bracket
    where they leave it. They start from a bound, or where logits are far apart from the m-th largest of a row.

    ``possible`` marks the labels that count; rows without any get a shift that means nothing. Rows with fewer than
    m + ½ possible labels (``n_positives`` is m) get half a label less than they may have.
    """
    counts = possible.sum(dim=1, keepdim=True).clamp(min=1).to(logits.dtype)
    target = torch.clamp(counts - 0.5, max=n_positives)
    known = possible.all()
    low_logits = logits if known else logits.masked_fill(~possible, -torch.inf)
    high_logits = logits if known else logits.masked_fill(~possible, torch.inf)
    level = torch.log(target / (counts - target))
    # If all logits were the largest, or the smallest; and σ(u) < exp(u), which is close where all f are small.
    low = torch.maximum(level - low_logits.amax(1, keepdim=True), target.log() - low_logits.logsumexp(1, keepdim=True))
    high = level - high_logits.amin(1, keepdim=True)
    low = torch.minimum(low, high)
    tolerance = 16.0 * torch.finfo(logits.dtype).eps
    whole, rest = divmod(n_positives, 1.0)
    near = low_logits.topk(min(int(whole) + 1, logits.shape[1]), dim=1).values[:, -1:]
    shift = torch.clamp(math.log(max(rest, 0.01) / max(1.0 - rest, 0.01)) - near, low, high)
    f = torch.sigmoid(low_logits + shift)
    for _ in range(_MOST_STEPS):
        total = f.sum(dim=1, keepdim=True)
        excess = torch.log(total / target)
        if not bool((excess.abs() > tolerance).any()):
            break
        below = excess < 0
        low, high = torch.where(below, shift, low), torch.where(below, high, shift)
        newton = shift - excess * total / (total - f.square().sum(dim=1, keepdim=True))
        shift = torch.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        f = torch.sigmoid(low_logits + shift)
    return shift.nan_to_num(0.0, 0.0, 0.0)


class CappedSoftmaxObjective(Objective):
    """−log f of the observed label, where a row's f add up to m."""

    def __init__(self, network: nn.Module, n_positives: float) -> None:
        super().__init__(network)
        self.n_positives = n_positives

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        yield "capped_likelihood", capped_likelihood(logits, batch.observed, self.n_positives)


@dataclass(kw_only=True, eq=False, repr=False)
class CappedSoftmaxClassifier(NeuralClassifier):
    """A softmax whose shares cannot exceed 1/m: learn which of m labels was observed. Key: ``capped``.

    Every row is taken to have m labels, of which one was observed, each as likely as the other. The probabilities of a
    row add up to m; that none can exceed 1 is what a softmax does not know, and the more labels rows have the more it
    matters.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        m, the mean number of positive labels per row; see ``ROLEClassifier``.
    network, learning_rate, … :
        See ``NeuralClassifier``.

    Attributes
    ----------
    n_positives_ : float
        The m that was used; ``history_.facts`` says where it came from.
    history_ : History
        Losses and validation scores by epoch.

    Examples
    --------
    >>> from onepos import CappedSoftmaxClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = CappedSoftmaxClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> bool(abs(model.predict_proba(data.X).sum(axis=1) - 2).max() < 1e-9)
    True
    """

    n_positives: float | str | None = None

    _uses_graph_features: ClassVar[bool] = True

    _parameter_constraints: ClassVar[Constraints] = {
        "n_positives": [AT_LEAST_ONE, one_of("estimate"), None],
    }

    def _make_objective(self, context: Context) -> Objective:
        number, self.n_positives_from_ = expected_n_positives(
            self.n_positives, context, single_label=self.single_label_
        )
        self.n_positives_ = min(number, context.n_labels - 0.5)  # with all labels there is nothing to learn
        return CappedSoftmaxObjective(context.network, self.n_positives_)

    def _finish(self, objective: Objective, context: Context) -> None:
        self.history_.facts |= {"n_positives": self.n_positives_, "n_positives_from": self.n_positives_from_}

    def _from_network(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shifted so that the probabilities of a row add up to m."""
        return logits if self.single_label_ else marginal_logits(logits, self.n_positives_)

    def _state(self) -> State:
        arrays, facts = super()._state()
        return arrays, facts | {"n_positives": self.n_positives_}

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        super()._restore(arrays, facts)
        self.n_positives_ = float(facts["n_positives"])

"""LL-R, LL-Ct, LL-Cp: reject or correct the unknown labels with the largest losses (Kim et al., CVPR 2022)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from onepos._utils.parameters import Constraints, below, one_of
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective, TrainingRows
from onepos.training.losses import assume_negative, binary_cross_entropy


def n_large(n_entries: int, rate: float) -> int:
    """K = ⌈rate · entries⌉; the product's rounding error does not count."""
    return max(0, math.ceil(rate * n_entries - 1e-9))


def largest_unknown(logits: Tensor, observed: Tensor, number: int) -> Tensor:
    """Mark exactly ``number`` unknown entries, if there are as many: those of the largest logits, and so losses."""
    unknown = (observed == 0).flatten()
    marked = torch.zeros_like(unknown)
    number = min(number, int(unknown.sum()))
    if number:
        candidates = logits.detach().flatten().masked_fill(~unknown, -torch.inf)
        marked[torch.topk(candidates, number).indices] = True
    return marked.view_as(observed)


def reject(logits: Tensor, observed: Tensor, marked: Tensor) -> Tensor:
    """LL-R: assume-negative loss, 0 at the marked entries."""
    return binary_cross_entropy(logits, observed.clamp(min=0).to(logits.dtype), (~marked).to(logits.dtype))


def correct(logits: Tensor, observed: Tensor, marked: Tensor) -> Tensor:
    """LL-Ct, and LL-Cp in the step that marks: assume-negative loss in which marked entries count as observed."""
    return assume_negative(logits, observed.masked_fill(marked, 1))


class LargeLossObjective(Objective):
    """Assume-negative loss in which the largest losses of unknown entries are dropped or flipped."""

    running = ("labels",)
    labels: Tensor

    def __init__(self, network: nn.Module, rows: TrainingRows, scheme: str, rate_per_epoch: float) -> None:
        super().__init__(network)
        self.scheme, self.rate_per_epoch, self.permanent = scheme, rate_per_epoch, scheme == "correct-permanently"
        if self.permanent:
            self.register_buffer("labels", rows.observed.clone(), persistent=False)

    @property
    def rate(self) -> float:
        """Share of a batch's entries that count as wrong in this epoch; the first epoch is plain assume-negative."""
        # Entries flipped for good stay flipped: the set still grows by the same share per epoch.
        n_epochs = min(self.epoch, 1) if self.permanent else self.epoch
        return n_epochs * self.rate_per_epoch

    def row_state(self) -> list[Tensor]:
        """The labels that were flipped for good, which a batch flips for its rows."""
        return list(self.running_state().values())

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        observed = self.labels[batch.rows] if self.permanent else batch.observed
        marked = largest_unknown(logits, observed, n_large(logits.numel(), self.rate))
        if self.permanent:
            self.labels[batch.rows] = observed.masked_fill(marked, 1)
        yield "large_loss", (reject if self.scheme == "reject" else correct)(logits, observed, marked)


@dataclass(kw_only=True, eq=False, repr=False)
class LargeLossClassifier(NeuralClassifier):
    """Large-loss learning: unknown labels with a large assume-negative loss are probably present.

    Keys: ``ll-r`` (``scheme="reject"``), ``ll-ct`` ("correct", ``rate_per_epoch=0.002``), ``ll-cp``
    ("correct-permanently", ``rate_per_epoch=0.001``). Kim et al., "Large Loss Matters in Weakly Supervised Multi-Label
    Classification", CVPR 2022.

    Parameters
    ----------
    scheme : {"reject", "correct", "correct-permanently"}
        What happens to unknown entries with the largest losses: they do not count in this step; they count as
        positive in this step; they are positive from now on.
    rate_per_epoch : float
        Δ/100, the share of all entries by which those taken for wrong grow with each epoch after the first. Other
        parameters: ``NeuralClassifier``.
    """

    scheme: str = "reject"
    rate_per_epoch: float = 0.005

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "scheme": [one_of("reject", "correct", "correct-permanently")],
        "rate_per_epoch": [below(1)],
    }

    _learns_likelihood: ClassVar[bool] = False

    def _make_objective(self, context: Context) -> Objective:
        return LargeLossObjective(context.network, context.rows, self.scheme, self.rate_per_epoch)

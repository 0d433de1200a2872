"""LL-R, LL-Ct, LL-Cp: reject or correct the unknown labels with the largest losses (Kim et al., CVPR 2022)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from onepos.methods._base import Constraints, below, one_of
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective, Rows
from onepos.training.losses import assume_negative, binary_cross_entropy


def n_large(n_entries: int, rate: float) -> int:
    """K = ⌈rate · entries⌉; the product's rounding error does not count."""
    return max(0, math.ceil(rate * n_entries - 1e-9))


def largest_unknown(logits: Tensor, observed: Tensor, number: int) -> Tensor:
    """Mark the unknown entries with the ``number`` largest assume-negative losses, at most all of them.

    The loss of an unknown entry, log(1 + e^z), rises with its logit z, so the largest logits are looked for. Exactly
    that many are marked, whatever the ties; observed and known entries never are.
    """
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

    labels: Tensor

    def __init__(self, network: nn.Module, rows: Rows, scheme: str, rate_per_epoch: float) -> None:
        super().__init__(network)
        self.scheme = scheme
        self.rate_per_epoch = rate_per_epoch
        if scheme == "correct-permanently":
            self.register_buffer("labels", rows.observed.clone(), persistent=False)

    @property
    def rate(self) -> float:
        """Share of a batch's entries that count as wrong in this epoch; the first epoch is plain assume-negative."""
        # Entries flipped for good stay flipped: the set still grows by the same share per epoch.
        n_epochs = min(self.epoch, 1) if self.scheme == "correct-permanently" else self.epoch
        return n_epochs * self.rate_per_epoch

    def running_state(self) -> dict[str, Tensor]:
        """The labels that were flipped for good."""
        return {"labels": self.labels} if self.scheme == "correct-permanently" else {}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take the labels back."""
        if self.scheme == "correct-permanently":
            self.labels = state["labels"].to(self.labels)

    def row_state(self) -> list[Tensor]:
        """The same labels, which a batch flips for its rows."""
        return list(self.running_state().values())

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        permanent = self.scheme == "correct-permanently"
        observed = self.labels[batch.rows] if permanent else batch.observed
        marked = largest_unknown(logits, observed, n_large(logits.numel(), self.rate))
        if permanent:
            self.labels[batch.rows] = observed.masked_fill(marked, 1)
        yield "large_loss", (reject if self.scheme == "reject" else correct)(logits, observed, marked)


@dataclass(kw_only=True, eq=False, repr=False)
class LargeLossClassifier(NeuralClassifier):
    """Large-loss learning: unknown labels with a large assume-negative loss are probably present.

    Keys: ``ll-r`` (``scheme="reject"``), ``ll-ct`` ("correct", ``rate_per_epoch=0.002``), ``ll-cp``
    ("correct-permanently", ``rate_per_epoch=0.001``).

    Parameters
    ----------
    scheme : {"reject", "correct", "correct-permanently"}
        What happens to unknown entries with the largest losses: they do not count in this step; they count as
        positive in this step; they are positive from now on.
    rate_per_epoch : float
        Δ/100, the share of all entries by which those taken for wrong grow with each epoch after the first.
    network, learning_rate, … :
        See ``NeuralClassifier``.

    References
    ----------
    Kim et al., "Large Loss Matters in Weakly Supervised Multi-Label Classification", CVPR 2022.
    """

    scheme: str = "reject"
    rate_per_epoch: float = 0.005

    _parameter_constraints: ClassVar[Constraints] = {
        "scheme": [one_of("reject", "correct", "correct-permanently")],
        "rate_per_epoch": [below(1)],
    }

    def _make_objective(self, context: Context) -> Objective:
        return LargeLossObjective(context.network, context.rows, self.scheme, self.rate_per_epoch)

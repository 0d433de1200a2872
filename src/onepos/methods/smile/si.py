"""SMILE-SI: SMILE's risk with the classifier's own confidence as soft label (Xu et al., NeurIPS 2022, ablation)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from onepos.methods._base import COUNT_OR_ZERO, POSITIVE, Constraints, one_of
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import Batch, Objective, Rows, losses
from onepos.training.networks import outputs_of_all


class SMILESIObjective(Objective):
    """After an AN warm-up, the single-positive risk R̂_sp with d = f(x), which carries no gradient."""

    confidence: Tensor

    def __init__(
        self, network: nn.Module, rows: Rows, warm_up_epochs: int, bound: float, keep_observed: bool, refresh: str
    ) -> None:
        super().__init__(network)
        self.rows = rows
        self.warm_up_epochs = warm_up_epochs
        self.bound = bound
        self.keep_observed = keep_observed
        self.refresh = refresh

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch and, with ``refresh="epoch"``, the confidence that its targets are made of."""
        super().begin_epoch(epoch)
        if self.refresh == "epoch" and epoch >= self.warm_up_epochs:
            self.confidence = self.soft_labels()

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        if self.epoch < self.warm_up_epochs:
            yield "risk", losses.assume_negative(logits, batch.observed)
            return
        if self.refresh == "epoch":
            soft_labels = self.confidence[batch.rows]
        else:
            soft_labels = self._with_known(logits.detach().sigmoid(), batch.observed)
        weights = losses.risk_weights(logits, batch.observed, self.bound)
        yield "risk", losses.single_positive_risk(logits, soft_labels, weights)

    def soft_labels(self) -> Tensor:
        """d for all rows, shape (n_samples, n_labels): f(x) of the present network without dropout."""
        return self._with_known(outputs_of_all(self.network, self.rows).sigmoid(), self.rows.observed)

    def _with_known(self, confidence: Tensor, observed: Tensor) -> Tensor:
        if self.keep_observed:
            confidence = torch.where(observed > 0, 1.0, confidence)
        return torch.where(observed < 0, 0.0, confidence)


@dataclass(kw_only=True, eq=False, repr=False)
class SMILESIClassifier(NeuralClassifier):
    """SMILE without label enhancement: the classifier's own confidence f_j(x) is the soft label d_j. Key: ``smile-si``.

    The paper's ablation, a self-training baseline: what SMILE gains over it, the recovered labels are worth.

    Parameters
    ----------
    keep_observed : bool
        Set d to 1 where the label was observed.
    refresh : {"step", "epoch"}
        When the confidence is taken. "step", the paper's: from the network as it is. The gradient of an unobserved
        entry, f − d, is then zero: only observed labels pull, and what they do to the others comes through shared
        weights. "epoch": from the network at the start of the epoch, which holds unobserved entries where they were.
    risk_weight_bound : float or "auto"
        κ, the bound on the risk weights 1/(f_γ·c); "auto" is 8/c, as in ``SMILEClassifier``.
    warm_up_epochs : int
        Epochs of assume-negative training before f is its own teacher; counted in ``max_epochs``.
    network, learning_rate, … :
        See ``NeuralClassifier``.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        The trained classifier's f(x) on the training set, with 1 where a label was observed.
    history_ : History
        Losses and validation scores by epoch.

    Notes
    -----
    The released ablation script blends f with a constant instead, as ``SMILEReleasedClassifier`` does with d.

    References
    ----------
    Xu, Qiao, Lv, Geng, Zhang, "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label
    Enhancement", NeurIPS 2022.

    Examples
    --------
    >>> from onepos.methods.smile.si import SMILESIClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = SMILESIClassifier(max_epochs=4, random_state=0).fit(data.X, data.observed)
    >>> model.soft_labels_.shape, bool((model.soft_labels_[data.observed == 1] == 1).all())
    ((200, 4), True)
    """

    keep_observed: bool = True
    refresh: str = "step"
    risk_weight_bound: float | str = "auto"
    warm_up_epochs: int = 3

    _parameter_constraints: ClassVar[Constraints] = {
        "keep_observed": ["boolean"],
        "refresh": [one_of("step", "epoch")],
        "risk_weight_bound": [one_of("auto"), POSITIVE],
        "warm_up_epochs": [COUNT_OR_ZERO],
    }

    def _make_objective(self, context: Context) -> Objective:
        bound = 8.0 / context.n_labels if isinstance(self.risk_weight_bound, str) else float(self.risk_weight_bound)
        return SMILESIObjective(
            context.network, context.rows, self.warm_up_epochs, bound, self.keep_observed, self.refresh
        )

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, SMILESIObjective)
        network = self.network_.to(self.device)
        self.soft_labels_ = objective.soft_labels().cpu().numpy()
        network.cpu()

"""SMILE-SI: SMILE's risk with the classifier's own confidence as soft label (Xu et al., NeurIPS 2022, ablation)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from onepos._utils.parameters import COUNT_OR_ZERO, Constraints
from onepos.methods._neural import Context, NeuralClassifier
from onepos.methods.smile.classifier import RiskObjective, with_known
from onepos.training import Batch, Objective
from onepos.training.networks import outputs_of_all


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
    >>> from onepos.methods.smile.si import SMILESIClassifier
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

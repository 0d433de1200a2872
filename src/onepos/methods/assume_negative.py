"""AN, AN-LS, WAN: treat what was not observed as negative (Cole et al., CVPR 2021)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from onepos._utils.parameters import POSITIVE_OR_ZERO, Constraints, below, one_of
from onepos.methods._neural import Context, NeuralClassifier
from onepos.training import LossObjective, Objective
from onepos.training.losses import assume_negative, binary_cross_entropy


@dataclass(kw_only=True, eq=False, repr=False)
class AssumeNegativeClassifier(NeuralClassifier):
    """Assume-negative learning: every label that was not observed counts as absent.

    Keys: ``an`` (the defaults), ``an-ls`` (``label_smoothing=0.1``), ``wan`` (``unobserved_weight="auto"``).
    Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021.

    Parameters
    ----------
    unobserved_weight : float or "auto"
        Weight of unobserved entries in the loss; "auto" is WAN's 1/(c−1): one positive balances all other labels.
    label_smoothing : float
        ε of AN-LS: targets are 1−ε where observed and ε elsewhere. Other parameters: ``NeuralClassifier``.

    Examples
    --------
    >>> from onepos import AssumeNegativeClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = AssumeNegativeClassifier(max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.predict_proba(data.X).shape
    (200, 4)
    """

    unobserved_weight: float | str = 1.0
    label_smoothing: float = 0.0

    _parameter_constraints: ClassVar[Constraints] = {
        **NeuralClassifier._parameter_constraints,
        "unobserved_weight": [one_of("auto"), POSITIVE_OR_ZERO],
        "label_smoothing": [below(0.5)],
    }

    _takes_sparse_labels: ClassVar[bool] = True

    def _metric(self, n_judging: int, n_labels: int, *, complete: bool) -> str:
        # Smoothed labels bound the probabilities from below: they are no likelihood.
        return super()._metric(n_judging, n_labels, complete=complete or self.label_smoothing > 0)

    def _make_objective(self, context: Context) -> Objective:
        weight = self.unobserved_weight
        if isinstance(weight, str):
            weight = 1.0 / max(context.n_labels - 1, 1)
        loss = partial(assume_negative, unobserved_weight=float(weight), label_smoothing=self.label_smoothing)
        return LossObjective(context.network, "assume_negative", loss)


def _against_complete(logits: Tensor, labels: Tensor) -> Tensor:
    return binary_cross_entropy(logits, (labels > 0).to(logits.dtype))


@dataclass(kw_only=True, eq=False, repr=False)
class FullySupervisedClassifier(NeuralClassifier):
    """Binary cross-entropy on *complete* labels: every 0 in y is a true negative. Key: ``bce``.

    Not a single-positive method: trained on complete labels, it shows what they are worth. Trained on single positives
    it equals ``an``. Parameters are those of ``NeuralClassifier``.

    Examples
    --------
    >>> from onepos import FullySupervisedClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> FullySupervisedClassifier(max_epochs=3, random_state=0).fit(data.X, data.Y).predict(data.X).shape
    (200, 4)
    """

    _y_is_full: ClassVar[bool] = True

    def _make_objective(self, context: Context) -> Objective:
        return LossObjective(context.network, "cross_entropy", _against_complete)

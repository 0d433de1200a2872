"""ROLE: regularised online label estimation (Cole et al., CVPR 2021)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from onepos.methods._context import Context
from onepos.methods._label_matrix import LabelMatrix
from onepos.methods._n_positives import expected_n_positives
from onepos.methods._neural import NeuralClassifier
from onepos.methods._role_losses import label_gradient, role
from onepos.training import Batch, Objective, Rows, Schedule

_KNOWN = math.log(0.995 / 0.005)  # Θ starts at ± this where the label is known …
_SPREAD = math.log(0.6 / 0.4)  # … and uniformly within ± this where it is not: σ(Θ) in (0.4, 0.6)


class ROLEObjective(Objective):
    """L = ½·[ ℓ(p | sg ŷ) + ℓ(ŷ | sg p) ]: the network learns from the labels, the labels from the network."""

    def __init__(
        self,
        network: nn.Module,
        labels: LabelMatrix,
        n_positives: float,
        regularizer_weight: float,
        label_schedule: Schedule,
    ) -> None:
        super().__init__(network)
        self.labels = labels
        self.n_positives = n_positives
        self.regularizer_weight = regularizer_weight
        self.label_schedule = label_schedule

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss; the loop steps the network on it, and Θ takes its own step here, both from the same values."""
        logits = self.network(batch.features)
        probabilities = logits.detach().sigmoid()
        settings = (batch.observed, self.n_positives, self.regularizer_weight)
        rate = self.label_schedule.learning_rate * self.label_schedule.rate_factor(self.epoch)
        label_logits = self.labels.step(batch.rows, lambda theta: label_gradient(theta, probabilities, *settings), rate)
        yield "role", role(logits, label_logits, *settings)

    def running_state(self) -> dict[str, Tensor]:
        """The pull of every step of Θ so far, which rows that were not looked at since will make up."""
        return {"pull": self.labels.pull}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Take it back."""
        self.labels.pull = state["pull"].to(self.labels.pull)

    @torch.no_grad()
    def soft_labels(self, rows: Rows) -> Tensor:
        """ŷ = σ(Θ) of all rows; rows that were not trained on have no Θ worth the name and get p at unknown entries."""
        logits = self.labels.settled()
        trained = torch.zeros(rows.n_samples, dtype=torch.bool, device=logits.device)
        trained[rows.trainable] = True
        for part in torch.split((~trained).nonzero().squeeze(1), 4096):
            predicted = self.network(rows.gather(part)).to(logits)
            logits[part] = torch.where(rows.observed[part] == 0, predicted, logits[part])
        return torch.sigmoid(logits)


def initial_label_logits(observed: Tensor, generator: torch.Generator, scores: Tensor | None = None) -> Tensor:
    """Θ as published: logit .995 where observed, logit .005 where known absent, else Uniform(−logit .6, logit .6).

    Where there are scores of unknown labels (not NaN), Θ starts at their logit, within ± logit .995.
    """
    logits = torch.empty(observed.shape, device=observed.device).uniform_(-_SPREAD, _SPREAD, generator=generator)
    if scores is not None:
        logits = torch.where(torch.isnan(scores), logits, torch.logit(scores).clamp(-_KNOWN, _KNOWN))
    return torch.where(observed == 0, logits, _KNOWN * observed.to(logits.dtype))


class _FittedROLE(NeuralClassifier):
    soft_labels_: NDArray[np.float32]
    n_positives_: float


@dataclass(kw_only=True, eq=False, repr=False)
class ROLEClassifier(_FittedROLE):
    """ROLE: estimate every training label online, together with the network, under an expected number of positives.

    Key: ``role``. A matrix Θ holds one logit for each training entry. Network and Θ are each pulled towards the other's
    sigmoid, towards what was observed, and towards k positives a row on average.

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
        Learning rate of Θ over that of the network.
    network, learning_rate, … :
        See ``NeuralClassifier``. Weight decay acts on the network only.

    Attributes
    ----------
    soft_labels_ : float32 array of shape (n_samples, n_labels)
        σ(Θ) at the restored epoch. Rows held out for validation or without an observed positive have no trained Θ:
        there it is the network's probability, with 0.995 and 0.005 at known entries.
    n_positives_ : float
        The k that was used; ``history_.facts`` says where it came from.
    history_ : History
        Losses and validation scores by epoch.

    Notes
    -----
    With ``label_scores`` in ``fit``, Θ starts at the logits of the scores wherever there are some.

    References
    ----------
    Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021.

    Examples
    --------
    >>> from onepos.methods.role import ROLEClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = ROLEClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.soft_labels_.shape, bool((model.soft_labels_[data.observed == 1] > 0.9).all())
    ((200, 4), True)
    """

    n_positives: float | str | None = None
    regularizer_weight: float = 1.0
    label_rate_factor: float = 10.0

    _uses_label_scores: ClassVar[bool] = True
    # Its estimated labels pull away from the observed ones, as those of SMILE do.
    _judged_by_likelihood: ClassVar[bool] = False
    _uses_graph_features: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralClassifier._parameter_constraints,
        "n_positives": [Interval(Real, 1, None, closed="left"), StrOptions({"estimate"}), None],
        "regularizer_weight": [Interval(Real, 0, None, closed="left")],
        "label_rate_factor": [Interval(Real, 0, None, closed="left")],
    }

    def _make_objective(self, context: Context) -> Objective:
        number, self.n_positives_from_ = expected_n_positives(
            self.n_positives, context, single_label=self.single_label_
        )
        self.n_positives_ = number
        labels = LabelMatrix(initial_label_logits(context.rows.observed, context.generator, context.label_scores))
        schedule = Schedule(
            self.max_epochs,
            context.schedule.batch_size,
            context.schedule.learning_rate * self.label_rate_factor,
            learning_rate_decay=self.learning_rate_decay,
        )
        return ROLEObjective(context.network, labels, number, self.regularizer_weight, schedule)

    def _finish(self, objective: Objective, context: Context) -> None:
        assert isinstance(objective, ROLEObjective)
        # The shell has moved the network back by now; Θ follows it.
        objective.cpu()
        rows = context.rows
        features = rows.features.cpu() if isinstance(rows.features, Tensor) else rows.features
        self.soft_labels_ = objective.soft_labels(Rows(features, rows.observed.cpu(), rows.trainable.cpu())).numpy()
        self.history_.facts |= {"n_positives": self.n_positives_, "n_positives_from": self.n_positives_from_}

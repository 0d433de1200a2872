"""EPR: expected positive regularisation (Cole et al., CVPR 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from onepos.methods._base import AT_LEAST_ONE, POSITIVE_OR_ZERO, Constraints, one_of
from onepos.methods._n_positives import expected_n_positives
from onepos.methods._neural import Context, NeuralClassifier
from onepos.methods.role import expected_positive
from onepos.training import Batch, Objective


class ExpectedPositiveObjective(Objective):
    """−log p where observed, and a batch's mean number of positives held near k; unknown entries have no target."""

    def __init__(self, network: nn.Module, n_positives: float, regularizer_weight: float) -> None:
        super().__init__(network)
        self.n_positives = n_positives
        self.regularizer_weight = regularizer_weight

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        logits = self.network(batch.features)
        yield "expected_positive", expected_positive(logits, batch.observed, self.n_positives, self.regularizer_weight)


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectedPositiveClassifier(NeuralClassifier):
    """Expected positive regularisation: fit what was observed, keep k positives a row on average. Key: ``epr``.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        k, the mean number of positive labels per row; see ``ROLEClassifier``.
    regularizer_weight : float
        λ of ((k̂ − k)/c)².
    network, learning_rate, … :
        See ``NeuralClassifier``.

    Attributes
    ----------
    n_positives_ : float
        The k that was used; ``history_.facts`` says where it came from.
    history_ : History
        Losses and validation scores by epoch.

    References
    ----------
    Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021.

    Examples
    --------
    >>> from onepos.methods.expected_positive import ExpectedPositiveClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> model = ExpectedPositiveClassifier(n_positives=2.0, max_epochs=3, random_state=0).fit(data.X, data.observed)
    >>> model.n_positives_
    2.0
    """

    n_positives: float | str | None = None
    regularizer_weight: float = 1.0

    _uses_graph_features: ClassVar[bool] = True

    _parameter_constraints: ClassVar[Constraints] = {
        "n_positives": [AT_LEAST_ONE, one_of("estimate"), None],
        "regularizer_weight": [POSITIVE_OR_ZERO],
    }

    def _make_objective(self, context: Context) -> Objective:
        number, self.n_positives_from_ = expected_n_positives(
            self.n_positives, context, single_label=self.single_label_
        )
        self.n_positives_ = number
        return ExpectedPositiveObjective(context.network, number, self.regularizer_weight)

    def _finish(self, objective: Objective, context: Context) -> None:
        self.history_.facts |= {"n_positives": self.n_positives_, "n_positives_from": self.n_positives_from_}

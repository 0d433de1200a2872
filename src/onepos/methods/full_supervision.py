"""Full supervision: the ceiling that single-positive methods are measured against."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from onepos.methods._context import Context
from onepos.methods._neural import NeuralClassifier
from onepos.training import Batch, Logits, Loss, Objective


class FullSupervisionObjective(Objective):
    """Binary cross-entropy against complete labels."""

    def losses(self, batch: Batch) -> Iterator[tuple[str, Loss]]:
        """One loss, one step."""
        logits = Logits(self.network, batch.features)
        yield "cross_entropy", logits.cross_entropy((batch.observed > 0).to(logits.values.dtype))


@dataclass(kw_only=True, eq=False, repr=False)
class FullySupervisedClassifier(NeuralClassifier):
    """Binary cross-entropy on *complete* labels: every 0 in y is a true negative. Key: ``bce``.

    Not a single-positive method: train it on the full labels to see what they would be worth. Trained on single
    positives it is the same as ``an``.

    Parameters are those of ``NeuralClassifier``.

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
        return FullSupervisionObjective(context.network)

"""Capped softmax: the likelihood of the observed label among m that are there."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from onepos.methods._capped_likelihood import likelihood_and_slopes
from onepos.methods._context import Context
from onepos.methods._n_positives import expected_n_positives
from onepos.methods._neural import NeuralClassifier
from onepos.stacking import marginal_logits
from onepos.training import Batch, Logits, Loss, Objective


class CappedSoftmaxObjective(Objective):
    """−log f of the observed label, where a row's f add up to m."""

    def __init__(self, network: nn.Module, n_positives: float) -> None:
        super().__init__(network)
        self.n_positives = n_positives

    def losses(self, batch: Batch) -> Iterator[tuple[str, Loss]]:
        """One loss, one step."""
        logits = Logits(self.network, batch.features)
        found = likelihood_and_slopes(logits.values, batch.observed, self.n_positives)
        yield "capped_likelihood", logits.with_slopes(*found)


class _FittedCappedSoftmax(NeuralClassifier):
    n_positives_: float


@dataclass(kw_only=True, eq=False, repr=False)
class CappedSoftmaxClassifier(_FittedCappedSoftmax):
    """A softmax whose shares cannot exceed 1/m: learn which of m labels was observed. Key: ``capped``.

    Every row is taken to have m labels, of which one was observed, each as likely as the other. The probabilities of a
    row add up to m; that none can exceed 1 is what a softmax does not know, and the more labels rows have the more it
    matters.

    Parameters
    ----------
    n_positives : float, "estimate" or None
        m, the mean number of positive labels per example, as in ``ROLEClassifier``: None takes it from a fully labelled
        validation set if there is one, else 2 (fewer if there are only two labels); a 1-D y has one; "estimate" guesses
        from how often nearest neighbours show the same label.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralClassifier._parameter_constraints,
        "n_positives": [Interval(Real, 1, None, closed="left"), StrOptions({"estimate"}), None],
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

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._state()
        return arrays, facts | {"n_positives": self.n_positives_}

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        super()._restore(arrays, facts)
        self.n_positives_ = float(facts["n_positives"])

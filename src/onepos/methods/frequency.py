"""The trivial baseline: rank labels by how often they were observed, whatever x is."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from onepos.methods._base import OnePositiveClassifier


def observed_frequency(observed: NDArray[np.int8]) -> NDArray[np.float64]:
    """Share of the labelled rows in which each label was observed, smoothed by half a count.

    Labels seen equally often are kept apart by column order, by an amount too small to matter otherwise.
    """
    positives = observed > 0
    counts = positives.sum(axis=0)
    order = np.arange(len(counts)) / len(counts)
    return np.asarray((counts + 0.5 - 1e-3 * order) / (positives.any(axis=1).sum() + 1.0))


class _FittedFrequency(OnePositiveClassifier):
    frequency_: NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class FrequencyClassifier(_FittedFrequency):
    """Constant ranking by observed frequency; the number every method has to beat. Key: ``frequency``.

    The score of a label is its share among the observed positives, smoothed by half a count. Labels seen equally often
    are kept apart by column order, by an amount too small to matter otherwise: the metrics count a tie as a mistake,
    and a fixed ranking should not be punished for what any order of its ties would earn.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None
        Not used: nothing is random. It is there so that all methods are built in the same way.

    Examples
    --------
    >>> import numpy as np
    >>> from onepos import FrequencyClassifier
    >>> model = FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])
    >>> model.predict_proba(np.zeros((1, 1))).round(2)
    array([[0.5, 0.3, 0.3]])
    """

    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"random_state": ["random_state", np.random.Generator]}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # it never looks at X
        return tags

    def fit(self, X: Any, y: Any, *, validation: Any = None, validation_labels: str = "single") -> Self:
        """Count the observed labels; of ``validation`` only the number of labels is used, if they are complete."""
        X, labels = self._check_training(X, y)
        given = self._check_validation(validation, validation_labels, labels)
        self.frequency_ = observed_frequency(labels.observed)
        complete = given[1] if given is not None and validation_labels == "full" else None
        self._cut_at(logit(self.frequency_)[None], complete=complete, rows="all rows, which are alike")
        return self

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return np.tile(logit(self.frequency_), (X.shape[0], 1))

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"frequency": self.frequency_}, {}

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self.frequency_ = arrays["frequency"]

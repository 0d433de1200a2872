"""The trivial baseline: rank labels by how often they were observed, whatever x is."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from onepos._utils import storage
from onepos._utils.validation import all_or_nothing
from onepos.label_sets.thresholds import observed_frequency
from onepos.methods._base import OnePositiveClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class FrequencyClassifier(OnePositiveClassifier):
    """Constant ranking by observed frequency; the number every method has to beat. Key: ``frequency``.

    The score of a label is its share among the observed positives, smoothed by half a count. Labels that were observed
    equally often differ by a negligible amount, in column order, because the metrics count a tie as a mistake.

    ``random_state``, which all methods have, is not used, as nothing is random.

    Examples
    --------
    >>> import numpy as np
    >>> from onepos import FrequencyClassifier
    >>> model = FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])
    >>> model.predict_proba(np.zeros((1, 1))).round(2)
    array([[0.5, 0.3, 0.3]])
    """

    random_state: Any = None

    _stored: ClassVar[storage.Rules] = {"frequency_": storage.Array("labels", "f8", storage.TINY, 1 - 1e-16)}

    _takes_sparse_labels: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # it never looks at X
        return tags

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, validation: Any = None, validation_labels: str = "single") -> Self:
        """Count the observed labels; complete labels in ``validation`` only give the number of labels per row."""
        X, labels, _, complete = self._check_fit(X, y, validation, validation_labels)
        self.frequency_ = observed_frequency(labels.observed)
        self._cut_at(logit(self.frequency_)[None], complete=complete, rows="all rows, which are alike")
        return self

    def _graph_logits(self, graph: Any) -> str:
        return str(graph.repeated(logit(self.frequency_)))

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return np.tile(logit(self.frequency_), (X.shape[0], 1))

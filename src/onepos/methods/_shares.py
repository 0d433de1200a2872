"""The base of methods that estimate which label would be observed, P(observed = j | x).

Single positives determine these shares and nothing else. How many labels a row has is an assumption: the log-shares of
a row are shifted so that its probabilities add up to ``n_positives``, which does not change the ranking.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos._utils.validation import Labels
from onepos.label_sets.cardinality import resolve_n_positives
from onepos.label_sets.pooling import marginal_logits
from onepos.methods._base import OnePositiveClassifier


class SharesClassifier(OnePositiveClassifier):
    """Subclasses implement ``fit``, which begins with ``_begin``, and ``_log_shares``."""

    def _begin(
        self, X: Any, y: Any, validation: Any, kind: str
    ) -> tuple[Any, Labels, tuple[Any, NDArray[np.int8]] | None]:
        """Validate the arguments of ``fit`` and set the number of positives."""
        X, labels, given, complete = self._check_fit(X, y, validation, kind)
        self.n_positives_, self.n_positives_from_ = resolve_n_positives(
            self.n_positives, len(labels.classes), complete, one_class=labels.single_label
        )
        return X, labels, given

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        """Log of P(observed = j | x) up to a number per row, shape (n_samples, n_labels), of validated features."""
        raise NotImplementedError(f"{type(self).__name__} must estimate which label would be observed.")

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return self._marginal(self._log_shares(X))

    def _marginal(self, log_shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shift each row so that its probabilities add up to the number of positives; not for a 1-D y."""
        if self.single_label_:
            return log_shares
        return marginal_logits(log_shares, min(self.n_positives_, len(self.classes_) - 0.5))

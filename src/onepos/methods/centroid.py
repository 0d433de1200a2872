"""How near a row is to each label's mean row, and what its features vote for: for bags of words and many labels."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax

from onepos._utils import storage
from onepos._utils.context import tell
from onepos._utils.parameters import Constraints
from onepos._utils.validation import all_or_nothing, cases, numpy_generator, stacked
from onepos.methods._base import SharesClassifier
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.rows.splits import first_alike, splits

#: Entries (rows × labels) of held-out rows that choose the three weights.
_MOST_JUDGED = 3_000_000
#: Entries of a block of labels that is dense while rows are compared with it.
_BLOCK = 1 << 22
#: What the observed frequency adds to a vote, so that its logarithm exists; most that a feature says of one label.
_PRIOR, _SUREST = 1e-3, 0.999
#: Least weight of the logarithm: without words that it knows, a row is ranked by frequency.
_LEAST = 0.01


@dataclass(kw_only=True, eq=False, repr=False)
class CentroidClassifier(SharesClassifier):
    """Compare rows with the mean row of each label. Key: ``centroid``.

    The log-score of label j is a·cos(x, m_j) + b·v_j(x) + d·log v_j(x). m_j is the sum of the rows that show the label,
    each of length 1. v_j(x) = −Σ_w x_w log(1 − p_wj) are the votes of the features for the label, as in complement
    naive Bayes; p_wj is the share of label j in the sum of feature w. The weights, at least 0, maximise the likelihood
    of held-out observed labels. Training is one product of sparse matrices. The method is for bags of words,
    with thousands of labels too.

    Parameters
    ----------
    validation_fraction, n_positives, at_least_one, random_state
        As in ``LogisticClassifier``.
    scale : {"auto", "standard", "minmax", "none"}
        "auto": "minmax" if a feature is negative, else "none". Scaled features below 0 count as 0.

    Attributes
    ----------
    weights_ : array of shape (3,)
        a, b and d.
    n_positives_ : float

    Examples
    --------
    >>> from onepos import CentroidClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = CentroidClassifier(random_state=0).fit(data.X, data.observed)
    >>> bool(abs(model.predict_proba(data.X).sum(axis=1) - 2).max() < 1e-9)
    True
    """

    _stored: ClassVar[storage.Rules] = {
        "scaler_": storage.Part(FeatureScaler),
        "frequency_": storage.Array("labels", "f8", storage.TINY, 1),
        "totals_": storage.Array("features", "f8", 0),
        "indptr_": storage.Array("labels+1", "i4 i8"),
        "indices_": storage.Array("entries", "i4 i8", 0, below="features"),
        "sums_": storage.Array("entries", "f4", 0),
        "weights_": storage.Array("*", "f8", 0),
    }

    _no_graph: ClassVar[str] = "compares rows with sparse means at prediction, which onepos cannot write as a graph"
    _takes_sparse_labels: ClassVar[bool] = True

    validation_fraction: float = 0.1
    scale: str = "auto"
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = SharesClassifier._parameter_constraints

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on features that are no bag of words
        return tags

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        storage.check_starts(fields["indptr_"], len(fields["sums_"]), "indptr_")
        if len(fields["weights_"]) != 3:
            raise ValueError(f"weights_ must be 3 numbers, not {len(fields['weights_'])}")
        return super()._from_stored(fields)

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; ``validation`` chooses the three weights (see ``NeuralClassifier.fit``)."""
        X, labels, given = self._begin(X, y, validation, validation_labels)
        negative = not sparse.issparse(X) and bool((X < 0).any())
        self.scaler_ = fit_scaler(X, ("minmax" if negative else "none") if self.scale == "auto" else self.scale)
        rows, generator = self._rows(X), numpy_generator(self.random_state)
        if given is not None:
            self._add_up(rows, labels.observed)
            evidence, truth, where = [self._evidence(self._rows(given[0]))], [given[1]], "validation rows"
        else:
            evidence, truth, where = [], [], "held-out rows"
            alike, fraction = first_alike(X), self.validation_fraction
            pairs = splits(labels.observed, fraction, generator, keep_labels=False, alike=alike)
            for train, held in pairs:
                some = generator.permutation(held)[: max(50, _MOST_JUDGED // (len(labels.classes) * len(pairs)))]
                self._add_up(rows[train], labels.observed[train])
                evidence.append(self._evidence(rows[some]))
                truth.append(labels.observed[some])
                tell(0.5 * len(truth) / len(pairs))
            self._add_up(rows, labels.observed)
        judged = np.concatenate(evidence)
        self.weights_ = _likeliest_weights(judged, stacked(truth))
        self._cut_at(self._marginal(judged @ self.weights_), rows=where)
        tell(1.0)
        return self

    def _rows(self, X: Any) -> Any:
        """Scaled rows of length 1, as CSR."""
        rows = sparse.csr_array(self.scaler_.transform(X))
        rows = rows.maximum(0.0) if rows.data.min(initial=0.0) < 0 else rows
        length = np.sqrt(rows.multiply(rows).sum(axis=1, dtype=np.float64))
        factor = np.where(length > 0, 1.0 / np.maximum(length, storage.TINY), 0.0)
        return sparse.csr_array(sparse.diags_array(factor.astype(np.float32)) @ rows)

    def _add_up(self, rows: Any, observed: Any) -> None:
        """Add up the rows of each label."""
        places, labels, share = cases(observed)
        member = sparse.csr_array((share.astype(np.float32), (labels, places)), shape=observed.shape[::-1])
        sums = sparse.csr_array(member @ rows)
        sums.sort_indices()
        self.indptr_, self.indices_, self.sums_ = sums.indptr, sums.indices, sums.data
        self.totals_ = np.asarray(sums.sum(axis=0, dtype=np.float64)).ravel()
        counts = np.bincount(labels, share, observed.shape[1]) + 0.5
        self.frequency_ = counts / counts.sum()

    def _evidence(self, rows: Any) -> NDArray[np.float32]:
        """Cosine, votes and the logarithm of votes, shape (n_samples, n_labels, 3)."""
        n_features, n_labels = len(self.totals_), len(self.frequency_)
        evidence = np.empty((rows.shape[0], n_labels, 3), dtype=np.float32)
        step = max(1, _BLOCK // n_features)
        sums = sparse.csr_array((self.sums_, self.indices_, self.indptr_), shape=(n_labels, n_features))
        for first in range(0, n_labels, step):
            part, block = slice(first, first + step), sums[first : first + step]
            length = np.sqrt(block.multiply(block).sum(axis=1))
            cosine = (rows @ np.ascontiguousarray(block.toarray().T)) / np.maximum(length, 1e-12)
            block.data = -np.log1p(-np.minimum(block.data / (self.totals_[block.indices] + 1.0), _SUREST))
            votes = rows @ np.ascontiguousarray(block.toarray().T.astype(np.float32))
            evidence[:, part, 0], evidence[:, part, 1] = cosine, votes
            evidence[:, part, 2] = np.log(votes + _PRIOR * self.frequency_[part])
        return evidence

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        rows = self._rows(X)
        scores = np.empty((rows.shape[0], len(self.frequency_)))
        step = max(1, _BLOCK // scores.shape[1])
        for first in range(0, len(scores), step):
            scores[first : first + step] = self._evidence(rows[first : first + step]) @ self.weights_
        return scores


def _likeliest_weights(evidence: NDArray[np.float32], observed: Any) -> NDArray[np.float64]:
    """Weights of the evidence that make the observed labels most likely under a softmax."""
    rows, labels, share = cases(observed)
    chosen = share @ evidence[rows, labels].astype(np.float64) / share.sum()
    weight = np.bincount(rows, share, len(evidence)) / share.sum()

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_p = log_softmax(evidence @ weights.astype(np.float32), axis=1)
        mean = np.einsum("i,ij,ijk->k", weight, np.exp(log_p), evidence, optimize=True)
        return float(-(share @ log_p[rows, labels]) / share.sum()), mean - chosen

    found = minimize(
        loss, np.array([10.0, 1.0, 0.5]), jac=True, method="L-BFGS-B", bounds=[(0.0, 1e4), (0.0, 1e4), (_LEAST, 1e4)]
    )
    return np.asarray(found.x)

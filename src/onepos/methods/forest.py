"""Extremely randomised trees on the observed label, smoothed by what each tree says of rows that it left out."""

import time
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import tell, time_left
from onepos._utils.validation import seed_from
from onepos.methods._base import COUNT, SHARE, Constraints, SharesClassifier, State, one_of
from onepos.methods._forest_trees import Grown, Sample, Trees, grow, join, single_precision

#: The first half of the trees leave out one of so many parts of the rows each, to judge by them.
N_FOLDS, JUDGING = 10, 2
#: min_samples_leaf="auto": a leaf for so many parts of the rows, and two rows at least.
MOST_LEAVES = 2000
#: Sparse features with a larger share of entries become dense, up to so many numbers.
DENSE_ABOVE, MOST_DENSE = 0.03, 1 << 26
#: What the weight of the prior is chosen from.
PRIOR_WEIGHTS = tuple(0.0625 * 2.0**k for k in range(16))


@dataclass(kw_only=True, eq=False, repr=False)
class ForestClassifier(SharesClassifier):
    """Extremely randomised trees on the observed label. Key: ``forest``.

    Trees are grown by scikit-learn, each on nine tenths of the rows. The probability of a label is the mean over trees
    of (n_j + a·f_j) / (n + a), n_j and n being the weights of the label and of all rows in a leaf, f the observed
    frequencies. a is chosen by the likelihood of observed labels under trees that did not see them: where features tell
    nothing it is large, and the ranking is that by frequency.

    Parameters
    ----------
    n_trees : int
    min_samples_leaf : int or "auto"
        Fewest rows in a leaf. "auto": 2, or n/2000 with more than 4,000 rows.
    max_features : "sqrt", "log2", int, float or None
        Features that a split chooses from, as in scikit-learn.
    n_positives, at_least_one
        See ``OnePositiveClassifier``. ``n_positives`` also sets the level of the probabilities; it does not change the
        ranking.
    n_jobs : int or None
        Threads to grow trees on, as in scikit-learn; the trees do not depend on it.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    trees_ : Trees
        Nodes and leaves as arrays.
    frequency_ : float array of shape (n_labels,)
        f, with half a row added to every label.
    prior_weight_ : float
        a, in rows.
    validation_scores_ : dict of float to float
        Mean log-likelihood of left-out rows by a, extrapolated to many trees.
    min_samples_leaf_ : int
    n_positives_ : float

    Examples
    --------
    >>> from onepos import ForestClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = ForestClassifier(n_trees=20, random_state=0).fit(data.X, data.observed)
    >>> bool(abs(model.predict_proba(data.X).sum(axis=1) - 2).max() < 1e-9)
    True
    """

    n_trees: int = 300
    min_samples_leaf: int | str = "auto"
    max_features: Any = "sqrt"
    n_jobs: int | None = -1
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {
        "n_trees": [COUNT],
        "min_samples_leaf": [COUNT, one_of("auto")],
        "max_features": [one_of("sqrt", "log2"), COUNT, SHARE, None],
        "n_jobs": [Integral, None],
    }

    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; ``validation`` with complete labels gives the number of positives by default."""
        X, labels, given = self._begin(X, y, validation, validation_labels)
        positive = labels.observed > 0
        rows, observed = np.nonzero(positive)
        n_rows = int(labels.labelled.sum())
        seeds = np.random.SeedSequence(seed_from(self.random_state))
        order = np.random.default_rng(seeds.spawn(1)[0]).permutation(len(positive))
        weights = 1.0 / positive.sum(axis=1)[rows]
        sample = Sample(_matrix(X, rows), observed, weights)
        fold = order[rows] % min(N_FOLDS, n_rows)
        left_out = [np.flatnonzero(fold == place % (fold.max() + 1)) for place in range((self.n_trees + 1) // JUDGING)]
        automatic = max(2, n_rows // MOST_LEAVES)
        self.min_samples_leaf_ = automatic if isinstance(self.min_samples_leaf, str) else int(self.min_samples_leaf)
        counts = np.bincount(observed, weights, len(labels.classes)) + 0.5
        self.frequency_ = np.asarray(counts / counts.sum())
        found: list[Grown] = []
        for grown in grow(
            sample,
            seeds.generate_state(self.n_trees).tolist(),
            left_out,
            n_jobs=self.n_jobs,
            end=time.monotonic() + time_left(),
            min_samples_leaf=self.min_samples_leaf_,
            max_features=self.max_features,
        ):
            if grown is not None:  # None: the time was up
                found.append(grown)
                tell(len(found) / self.n_trees)
        self.trees_ = join([grown.tree for grown in found])
        n_folds = int(fold.max()) + 1
        self._choose_prior_weight(sample, found[: len(left_out)], n_folds)
        if given is not None:
            self._cut_at(self._logits(given[0]), rows="validation rows")
        else:  # the rows that the first trees left out
            few = join([grown.tree for grown in found[: len(left_out) : n_folds]])
            self._cut_at(self._marginal(self._shares(few, sample.X[left_out[0]])), rows="left-out rows")
        return self

    def _choose_prior_weight(self, sample: Sample, found: list[Grown], n_folds: int) -> None:
        """Choose a by the likelihood of rows under the trees that left them out."""
        out = np.concatenate([grown.out for grown in found])
        leaf = np.concatenate([grown.leaf_weight for grown in found])
        own = np.concatenate([grown.own_weight for grown in found])
        # Few trees judge a row. What t trees lack in log-likelihood is about proportional to 1/t, so that as many trees
        # as one likes gain over all t what these gain over each half of them.
        half = np.concatenate([np.full(len(grown.out), place // n_folds % 2) for place, grown in enumerate(found)])
        parts = [half >= 0, half == 0, half == 1] if len(found) >= 2 * n_folds else [half >= 0]
        self.validation_scores_: dict[float, float] = {}
        for weight in PRIOR_WEIGHTS:
            share = (own + weight * self.frequency_[sample.labels[out]]) / (leaf + weight)
            told = [_mean_log(share[part], out[part], sample.weights) for part in parts]
            self.validation_scores_[weight] = 2 * told[0] - (told[1] + told[2]) / 2 if len(told) == 3 else told[0]
        self.prior_weight_ = max(self.validation_scores_, key=lambda weight: self.validation_scores_[weight])

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        return self._shares(self.trees_, X)

    def _shares(self, trees: Trees, X: Any) -> NDArray[np.float64]:
        return np.log(trees.shares(X, self.frequency_, self.prior_weight_))

    def _state(self) -> State:
        facts = {"prior_weight": self.prior_weight_, "min_samples_leaf": self.min_samples_leaf_}
        return self.trees_.state() | {"frequency": self.frequency_}, facts | {"n_positives": self.n_positives_}

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self.trees_ = Trees.from_state(arrays)
        self.frequency_, self.prior_weight_ = arrays["frequency"], facts["prior_weight"]
        self.min_samples_leaf_, self.n_positives_ = facts["min_samples_leaf"], facts["n_positives"]
        self.validation_scores_ = {}


def _mean_log(shares: NDArray[np.float64], rows: NDArray[np.intp], weights: NDArray[np.float64]) -> float:
    """Weighted mean over rows of the logarithm of a row's mean share."""
    judged, times = np.unique(rows, return_counts=True)
    told = np.log(np.bincount(rows, shares)[judged] / times)
    return float(weights[judged] @ told / weights[judged].sum())


def _matrix(X: Any, rows: NDArray[np.intp]) -> Any:
    """Rows as scikit-learn's trees take them, in single precision; dense where that is the faster and fits."""
    size = len(rows) * X.shape[1]
    if not sparse.issparse(X) or (size <= MOST_DENSE and X.nnz > DENSE_ABOVE * X.shape[0] * X.shape[1]):
        return single_precision(X[rows])
    found = sparse.csr_matrix(X[rows], dtype=np.float32)
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    found.sort_indices()
    return found

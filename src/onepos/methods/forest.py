"""Extremely randomised trees on the observed label, smoothed by the rows that each tree left out."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from onepos._utils import storage
from onepos._utils.context import tell
from onepos._utils.parameters import COUNT, SHARE, Constraints, one_of
from onepos._utils.validation import all_or_nothing, cases, seed_from
from onepos.label_sets.thresholds import cardinality_threshold
from onepos.methods._base import SharesClassifier
from onepos.methods._trees import Grown, Sample, Trees, grow, join, tree_matrix
from onepos.rows.splits import first_alike

#: The first half of the trees leave out one of so many parts of the rows each, to judge by them.
N_FOLDS, JUDGING = 10, 2
#: min_samples_leaf="auto": a leaf for so many parts of the rows, and two rows at least.
MOST_LEAVES = 2000
#: What the weight of the prior is chosen from.
PRIOR_WEIGHTS = tuple(0.0625 * 2.0**k for k in range(16))
#: Rows that label sets are cut by.
_CUT_ROWS = 2000


@dataclass(kw_only=True, eq=False, repr=False)
class ForestClassifier(SharesClassifier):
    """Randomised trees on the observed label. Key: ``forest``.

    Trees are grown by scikit-learn, each on nine tenths of the rows. The probability of a label is the mean over trees
    of (n_j + a·f_j) / (n + a), n_j and n being the weights of the label and of all rows in a leaf, f the observed
    frequencies. a is chosen by the likelihood of observed labels under trees that did not see them. Where features tell
    nothing, a is large and labels are ranked by frequency.

    Parameters
    ----------
    n_trees : int
    min_samples_leaf : int or "auto"
        Fewest rows in a leaf. "auto": 2, or n/2000 with more than 4,000 rows.
    max_features : "sqrt", "log2", int, float or None
        Features that a split chooses from, as in scikit-learn.
    splitter : {"random", "best"}
        One random threshold per feature, or the best one as in a random forest. The latter suits categories and rules
        with thresholds on few rows.
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

    _stored: ClassVar[storage.Rules] = {
        "trees_": storage.Part(Trees),
        "frequency_": storage.Array("labels", "f8", storage.TINY, 1),
        "prior_weight_": storage.POSITIVE,
        "min_samples_leaf_": storage.SIZE,
    }

    _takes_sparse_labels: ClassVar[bool] = True
    _no_graph: ClassVar[str] = "walks through its trees at prediction, which onepos cannot write as a graph"

    n_trees: int = 300
    min_samples_leaf: int | str = "auto"
    max_features: Any = "sqrt"
    splitter: str = "random"
    n_jobs: int | None = -1
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {
        **SharesClassifier._parameter_constraints,
        "n_trees": [COUNT],
        "min_samples_leaf": [COUNT, one_of("auto")],
        "max_features": [one_of("sqrt", "log2"), COUNT, SHARE, None],
        "splitter": [one_of("random", "best")],
        "n_jobs": [Integral, None],
    }

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; ``validation`` with complete labels gives the number of positives by default."""
        X, labels, given = self._begin(X, y, validation, validation_labels)
        rows, observed, weights = cases(labels.observed)
        n_rows = int(labels.labelled.sum())
        seeds = np.random.SeedSequence(seed_from(self.random_state))
        order = np.random.default_rng(seeds.spawn(1)[0]).permutation(X.shape[0])
        sample = Sample(tree_matrix(X, rows), observed, weights)
        alike = first_alike(X)
        fold = (order if alike is None else order[alike])[rows] % min(N_FOLDS, n_rows)
        _, fold = np.unique(fold, return_inverse=True)  # none is empty
        n_folds = int(fold.max()) + 1
        left_out = [np.flatnonzero(fold == place % n_folds) for place in range((self.n_trees + 1) // JUDGING)]
        automatic = max(2, n_rows // MOST_LEAVES)
        self.min_samples_leaf_ = automatic if isinstance(self.min_samples_leaf, str) else int(self.min_samples_leaf)
        counts = np.bincount(observed, weights, len(labels.classes)) + 0.5
        self.frequency_ = np.asarray(counts / counts.sum())
        tree_seeds = seeds.generate_state(self.n_trees).tolist()
        limits: dict[str, Any] = {"min_samples_leaf": self.min_samples_leaf_, "max_features": self.max_features}
        trees: list[Grown] = []
        for grown in grow(sample, tree_seeds, left_out, n_jobs=self.n_jobs, splitter=self.splitter, **limits):
            trees.append(grown)
            tell(len(trees) / self.n_trees)
        self.trees_ = join([grown.tree for grown in trees])
        self._choose_prior_weight(sample, trees[: len(left_out)], n_folds)
        if given is not None:
            self._cut_at(self._logits(given[0]), rows="validation rows")
        else:
            self._cut_at_left_out(sample, trees[: len(left_out)], left_out[:n_folds])
        return self

    def _choose_prior_weight(self, sample: Sample, trees: list[Grown], n_folds: int) -> None:
        """Choose a by the likelihood of rows under the trees that left them out."""
        out = np.concatenate([grown.out for grown in trees])
        leaf = np.concatenate([grown.leaf_weight for grown in trees])
        own = np.concatenate([grown.own_weight for grown in trees])
        # Few trees judge a row. What t trees lack in log-likelihood is about proportional to 1/t, so that as many trees
        # as one likes gain over all t what these gain over each half of them.
        half = np.concatenate([np.full(len(grown.out), place // n_folds % 2) for place, grown in enumerate(trees)])
        parts = [half >= 0, half == 0, half == 1] if len(trees) >= 2 * n_folds else [half >= 0]
        self.validation_scores_: dict[float, float] = {}
        for weight in PRIOR_WEIGHTS:
            share = (own + weight * self.frequency_[sample.labels[out]]) / (leaf + weight)
            whole, *halves = (_mean_log(share[part], out[part], sample.weights) for part in parts)
            self.validation_scores_[weight] = 2 * whole - sum(halves) / 2 if halves else whole
        self.prior_weight_ = max(self.validation_scores_, key=lambda weight: self.validation_scores_[weight])

    def _cut_at_left_out(self, sample: Sample, trees: list[Grown], folds: list[NDArray[np.intp]]) -> None:
        """Cut label sets by rows under the trees that left them out.

        Few trees give rows more extreme shares than many do. As above, the threshold goes as 1/t in their number t.
        """
        n_judged = 1 + int(np.searchsorted(np.cumsum([len(rows) for rows in folds]), _CUT_ROWS))
        logits: list[list[NDArray[np.float64]]] = [[], [], []]  # of all trees, and of both halves
        for place, rows in enumerate(folds[:n_judged]):
            judges = [grown.tree for grown in trees[place :: len(folds)]]
            for blocks, part in zip(logits, (judges, judges[::2], judges[1::2]), strict=True):
                if part:
                    blocks.append(self._marginal(self._shares(join(part), sample.X[rows])))
        self._cut_at(np.concatenate(logits[0]), rows="left-out rows")
        if not self.single_label_ and len(logits[2]) == len(logits[0]):
            cut = (
                cardinality_threshold(expit(np.concatenate(blocks)), self.n_positives_, at_least_one=self.at_least_one)
                for blocks in logits[1:]
            )
            self.thresholds_ = np.clip(2 * self.thresholds_ - sum(cut) / 2, 0.0, 1.0)

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        return self._shares(self.trees_, X)

    def _shares(self, trees: Trees, X: Any) -> NDArray[np.float64]:
        return np.log(trees.shares(X, self.frequency_, self.prior_weight_))


def _mean_log(shares: NDArray[np.float64], rows: NDArray[np.intp], weights: NDArray[np.float64]) -> float:
    """Weighted mean over rows of the logarithm of a row's mean share."""
    judged, times = np.unique(rows, return_counts=True)
    logs = np.log(np.bincount(rows, shares)[judged] / times)
    return float(weights[judged] @ logs / weights[judged].sum())

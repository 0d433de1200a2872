"""Extremely randomised trees on the observed label, smoothed by the rows that each tree left out."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.tree import ExtraTreeClassifier
from sklearn.utils.parallel import Parallel, delayed

from onepos._utils import storage
from onepos._utils.context import tell, time_left
from onepos._utils.parameters import COUNT, SHARE, Constraints, one_of
from onepos._utils.validation import seed_from
from onepos.label_sets.thresholds import cardinality_threshold
from onepos.methods._base import SharesClassifier

#: The first half of the trees leave out one of so many parts of the rows each, to judge by them.
N_FOLDS, JUDGING = 10, 2
#: min_samples_leaf="auto": a leaf for so many parts of the rows, and two rows at least.
MOST_LEAVES = 2000
#: Sparse features with a larger share of entries become dense, up to so many numbers.
DENSE_ABOVE, MOST_DENSE = 0.03, 1 << 26
#: What the weight of the prior is chosen from.
PRIOR_WEIGHTS = tuple(0.0625 * 2.0**k for k in range(16))
#: Nodes that a chunk of rows may stand at: what the walk needs for each is some ten numbers.
_MOST_PLACES = 1 << 20
_LARGEST = float(np.finfo(np.float32).max)
#: Rows that label sets are cut by.
_CUT_ROWS = 2000


@dataclass(frozen=True)
class Trees:
    """Nodes and leaves of all trees as plain arrays, walked by NumPy; a row goes left where x[feature] <= threshold.

    Each tree is in preorder: the left child of a node is the next one. The last three arrays are a CSR matrix
    (n_leaves, n_labels) with the weight of training rows by leaf and observed label: a dense one would take gigabytes
    with a thousand labels.
    """

    _stored: ClassVar[storage.Rules] = {
        "feature": storage.Array("nodes", "i2 i4", -1, below="features"),
        "threshold": storage.Array("nodes", "f4"),
        "right": storage.Array("nodes", "i4", 0),
        "roots": storage.Array("trees", "i4", 0, below="nodes"),
        "indptr": storage.Array("leaves+1", "i4"),
        "labels": storage.Array("entries", "u1 u2 u4", 0, below="labels"),
        "counts": storage.Array("entries", "u1 u2 u4 f4 f8", storage.TINY),
    }

    roots: NDArray[Any]  # (n_trees,)
    feature: NDArray[Any]  # (n_nodes,); −1 marks a leaf
    threshold: NDArray[Any]  # float32, (n_nodes,)
    right: NDArray[Any]  # (n_nodes,): right child of an inner node; number of a leaf
    indptr: NDArray[Any]
    labels: NDArray[Any]
    counts: NDArray[Any]

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        """Check that every walk from a root ends in a leaf, and that every leaf has labels."""
        right, inner, indptr = fields["right"], fields["feature"] >= 0, fields["indptr"]
        storage.check_starts(indptr, len(fields["labels"]), "indptr")
        if (np.diff(indptr) < 1).any():
            raise ValueError("indptr must give every leaf a label")
        if (right[inner] <= np.flatnonzero(inner) + 1).any() or (right[inner] >= len(right)).any():
            raise ValueError(f"right must put a child after its parent and within {len(right):,} nodes")
        if (right[~inner] >= len(indptr) - 1).any():
            raise ValueError(f"right must number the leaves, of which there are {len(indptr) - 1:,}")
        return cls(**fields)

    def leaves(self, X: NDArray[np.float32]) -> NDArray[Any]:
        """Leaf of every row in every tree, shape (n_samples, n_trees)."""
        n_rows, n_trees = len(X), len(self.roots)
        place = np.tile(self.roots, n_rows)
        values, width = X.reshape(-1), X.shape[1]
        start = np.repeat(np.arange(n_rows, dtype=np.int64) * width, n_trees)
        moving = np.flatnonzero(self.feature[place] >= 0)
        while len(moving):
            at = place[moving]
            goes_left = values[start[moving] + self.feature[at]] <= self.threshold[at]
            at = np.where(goes_left, at + 1, self.right[at])
            place[moving] = at
            moving = moving[self.feature[at] >= 0]
        return np.asarray(self.right[place].reshape(n_rows, n_trees))

    def shares(self, X: Any, prior: NDArray[np.float64], prior_weight: float) -> NDArray[np.float64]:
        """Mean over trees of (counts + a·f) / (n + a) in a row's leaf of weight n; f is ``prior``, a its weight."""
        shape = (len(self.indptr) - 1, len(prior))
        counts = sparse.csr_array((self.counts.astype(np.float64), self.labels.astype(np.int32), self.indptr), shape)
        factor = 1.0 / (np.asarray(counts.sum(axis=1)) + prior_weight)
        counts.data *= np.repeat(factor, np.diff(counts.indptr))
        n_trees = len(self.roots)
        result = np.empty((X.shape[0], len(prior)))
        step = max(1, _MOST_PLACES // (n_trees + X.shape[1] // 8 + 1))
        for first in range(0, X.shape[0], step):
            part = slice(first, first + step)
            leaves = self.leaves(single_precision(X[part]))
            ends = np.arange(len(leaves) + 1) * n_trees
            reached = sparse.csr_array((np.ones(leaves.size), leaves.ravel(), ends), (len(leaves), shape[0]))
            result[part] = (reached @ counts).toarray()
            result[part] += np.outer(prior_weight * factor[leaves].sum(axis=1), prior)
        return result / n_trees


def single_precision(X: Any) -> NDArray[np.float32]:
    """Rows as trees take them: dense float32, with what float32 cannot hold at its ends."""
    dense = X.toarray() if sparse.issparse(X) else X
    return np.ascontiguousarray(np.clip(dense, -_LARGEST, _LARGEST), dtype=np.float32)


class Grown(NamedTuple):
    """A tree, and what it says of the rows that it left out: their leaf's weight, and that of their own label in it."""

    tree: Trees
    out: NDArray[np.intp]
    leaf_weight: NDArray[np.float64]
    own_weight: NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Rows to grow trees on, dense or CSR in float32, one label each: a row with several labels comes several times."""

    X: Any
    labels: NDArray[np.intp]
    weights: NDArray[np.float64]


def grow(
    sample: Sample,
    seeds: Sequence[int],
    left_out: Sequence[NDArray[np.intp]],
    *,
    n_jobs: int | None,
    end: float,
    **settings: Any,
) -> Iterator[Grown | None]:
    """Grow a tree for each seed, on several threads; None in place of those that would begin after ``end``.

    ``left_out`` has the rows that the first, second, … tree does not see; further trees see all rows. scikit-learn's
    tree is dropped as soon as it is converted: with many labels it is large.
    """
    by_column = sample.X.tocsc() if sparse.issparse(sample.X) else sample.X

    def one(place: int, seed: int) -> Grown | None:
        if place and time.monotonic() >= end:
            return None
        out = left_out[place] if place < len(left_out) else np.empty(0, dtype=np.intp)
        weights = sample.weights.copy()
        weights[out] = 0.0  # scikit-learn takes no notice of such rows
        tree = ExtraTreeClassifier(random_state=seed, **settings)
        tree.fit(by_column, sample.labels, weights, check_input=False)
        return _converted(tree, sample, weights, out)

    grown: Iterator[Grown | None] = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
        delayed(one)(place, seed) for place, seed in enumerate(seeds)
    )
    return grown


def _converted(
    grown: ExtraTreeClassifier, sample: Sample, weights: NDArray[np.float64], out: NDArray[np.intp]
) -> Grown:
    tree = grown.tree_
    inner = tree.children_left >= 0
    if not np.array_equal(tree.children_left[inner], np.flatnonzero(inner) + 1):
        raise RuntimeError("scikit-learn numbers the nodes of its trees in another order than onepos expects.")
    number = np.cumsum(~inner) - 1
    # float32 x <= t holds exactly where x <= the largest float32 that is not above t.
    threshold = tree.threshold.astype(np.float32)
    threshold = np.where(threshold > tree.threshold, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    leaf = number[grown.apply(sample.X, check_input=False)]
    n_labels = int(sample.labels.max()) + 1
    entries, entry = np.unique(leaf * n_labels + sample.labels, return_inverse=True)
    counts = np.bincount(entry, weights).astype(np.float64, copy=False)
    seen = counts > 0  # what is not is left out
    leaves, labels = np.divmod(entries[seen], n_labels)
    converted = Trees(
        roots=np.zeros(1, dtype=np.int32),
        feature=np.where(inner, tree.feature, -1).astype(np.int32),
        threshold=np.where(inner, threshold, np.float32(0)),
        right=np.where(inner, tree.children_right, number).astype(np.int32),
        indptr=np.searchsorted(leaves, np.arange(number[-1] + 2)).astype(np.int32),
        labels=_narrow(labels),
        counts=_narrow(counts[seen]),
    )
    return Grown(converted, out, np.bincount(leaf, weights)[leaf[out]], counts[entry[out]])


def join(trees: Sequence[Trees]) -> Trees:
    """Put trees into one set of arrays, in their order."""
    nodes = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    leaves = np.cumsum([0, *(len(tree.indptr) - 1 for tree in trees)])
    entries = np.cumsum([0, *(len(tree.labels) for tree in trees)])
    shifted = [
        tree.right + np.where(tree.feature >= 0, node, leaf)
        for tree, node, leaf in zip(trees, nodes, leaves, strict=False)
    ]
    indptr = [tree.indptr[:-1] + entry for tree, entry in zip(trees, entries, strict=False)]
    feature = np.concatenate([tree.feature for tree in trees])
    return Trees(
        roots=np.concatenate([tree.roots + node for tree, node in zip(trees, nodes, strict=False)]).astype(np.int32),
        feature=feature.astype(np.int16) if feature.max(initial=0) <= np.iinfo(np.int16).max else feature,
        threshold=np.concatenate([tree.threshold for tree in trees]),
        right=np.concatenate(shifted).astype(np.int32),
        indptr=np.append(np.concatenate(indptr), entries[-1]).astype(np.int32),
        labels=np.concatenate([tree.labels for tree in trees]),
        counts=np.concatenate([tree.counts for tree in trees]),
    )


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Counts in the smallest type that holds them exactly; parts of rows in float32."""
    if (numbers != np.floor(numbers)).any():
        return numbers.astype(np.float32)
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


@dataclass(kw_only=True, eq=False, repr=False)
class ForestClassifier(SharesClassifier):
    """Extremely randomised trees on the observed label. Key: ``forest``.

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

    _no_graph: ClassVar[str] = "walks through its trees at prediction, which onepos cannot write as a graph"

    n_trees: int = 300
    min_samples_leaf: int | str = "auto"
    max_features: Any = "sqrt"
    n_jobs: int | None = -1
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {
        **SharesClassifier._parameter_constraints,
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
        else:
            self._cut_at_left_out(sample, found[: len(left_out)], left_out[:n_folds])
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

    def _cut_at_left_out(self, sample: Sample, found: list[Grown], folds: list[NDArray[np.intp]]) -> None:
        """Cut label sets by rows under the trees that left them out.

        Few trees give rows more extreme shares than many do. As above, the threshold goes as 1/t in their number t.
        """
        n_judged = 1 + int(np.searchsorted(np.cumsum([len(rows) for rows in folds]), _CUT_ROWS))
        logits: list[list[NDArray[np.float64]]] = [[], [], []]  # of all trees, and of both halves
        for place, rows in enumerate(folds[:n_judged]):
            trees = [grown.tree for grown in found[place :: len(folds)]]
            for told, part in zip(logits, (trees, trees[::2], trees[1::2]), strict=True):
                if part:
                    told.append(self._marginal(self._shares(join(part), sample.X[rows])))
        self._cut_at(np.concatenate(logits[0]), rows="left-out rows")
        if not self.single_label_ and len(logits[2]) == len(logits[0]):
            cut = (
                cardinality_threshold(expit(np.concatenate(told)), self.n_positives_, at_least_one=self.at_least_one)
                for told in logits[1:]
            )
            self.thresholds_ = np.clip(2 * self.thresholds_ - sum(cut) / 2, 0.0, 1.0)

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        return self._shares(self.trees_, X)

    def _shares(self, trees: Trees, X: Any) -> NDArray[np.float64]:
        return np.log(trees.shares(X, self.frequency_, self.prior_weight_))


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

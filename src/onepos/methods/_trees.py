"""The trees of ``forest``: grown by scikit-learn, kept as plain arrays, walked by NumPy."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.parallel import Parallel, delayed

from onepos._utils import storage
from onepos._utils.context import time_left

#: Sparse features with a larger share of entries become dense, up to so many numbers.
DENSE_ABOVE, MOST_DENSE = 0.03, 1 << 26
#: Nodes that a chunk of rows may stand at: what the walk needs for each is some ten numbers.
_MOST_PLACES = 1 << 20
_LARGEST = float(np.finfo(np.float32).max)


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
            leaves = self.leaves(clipped_rows(X[part]))
            ends = np.arange(len(leaves) + 1) * n_trees
            reached = sparse.csr_array((np.ones(leaves.size), leaves.ravel(), ends), (len(leaves), shape[0]))
            result[part] = (reached @ counts).toarray()
            result[part] += np.outer(prior_weight * factor[leaves].sum(axis=1), prior)
        return result / n_trees


def clipped_rows(X: Any) -> NDArray[np.float32]:
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
    **settings: Any,
) -> Iterator[Grown]:
    """Grow a tree for each seed, on several threads; all but the first only while time is left.

    ``left_out`` has the rows that the first, second, … tree does not see; further trees see all rows. scikit-learn's
    tree is dropped as soon as it is converted: with many labels it is large.
    """
    end = time.monotonic() + time_left()  # threads do not see the limit
    by_column = sample.X.tocsc() if sparse.issparse(sample.X) else sample.X

    def one(place: int, seed: int) -> Grown | None:
        if place and time.monotonic() >= end:
            return None
        out = left_out[place] if place < len(left_out) else np.empty(0, dtype=np.intp)
        weights = sample.weights.copy()
        weights[out] = 0.0  # scikit-learn takes no notice of such rows
        tree = DecisionTreeClassifier(random_state=seed, **settings)
        tree.fit(by_column, sample.labels, weights, check_input=False)
        return _converted(tree, sample, weights, out)

    threads = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    trees = threads(delayed(one)(place, seed) for place, seed in enumerate(seeds))
    return (tree for tree in trees if tree is not None)


def _converted(
    grown: DecisionTreeClassifier, sample: Sample, weights: NDArray[np.float64], out: NDArray[np.intp]
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


def tree_matrix(X: Any, rows: NDArray[np.intp]) -> Any:
    """Rows as scikit-learn's trees take them, in single precision; dense where that is the faster and fits."""
    size = len(rows) * X.shape[1]
    if not sparse.issparse(X) or (size <= MOST_DENSE and X.nnz > DENSE_ABOVE * X.shape[0] * X.shape[1]):
        return clipped_rows(X[rows])
    matrix = sparse.csr_matrix(X[rows], dtype=np.float32)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    matrix.sort_indices()
    return matrix

"""What ``auto`` tries: one candidate of each kind, cheap ones first, then variants of the networks.

A pool gains from members that err differently: a linear model, a forest, a kernel, networks with several losses. On
dense features the forest and the kernel are strong. On bags of rare features, such as words, networks are strong; they
come first there, wide and with features dropped.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from onepos.methods._base import OnePositiveClassifier
from onepos.methods._network_settings import auto_batch_size
from onepos.methods.observed_tag import ObservedTagClassifier
from onepos.methods.registry import key_of, make_classifier

#: Keys of the methods that can be members.
NETWORKS = ("capped", "wan", "softmax", "smile", "an")
KINDS = ("frequency", "logistic", "forest", "kernel", "centroid", *NETWORKS)
#: The key of the logistic regression of features and scores.
WITH_SCORES = "logistic, scores"
#: Kinds by how soon they are tried: those that are strong for their cost, then those that are tried if time is ample.
_DENSE = (("frequency", "logistic", "forest", "kernel", "capped", "wan"), ("smile", "softmax"))
_BAGS = (("frequency", "centroid", "logistic", "capped", "wan", "softmax"), ("forest", "kernel", "smile"))
#: Of more rows than this a network needs fewer epochs.
_ALL_EPOCHS = 36_000
#: With at most so many rows a second forest, with the best thresholds, is worth its time.
_FEW_ROWS = 5000
#: Losses of the variants, in turn.
_VARIANTS = ("softmax", "capped", "wan", "an")


class Candidate(NamedTuple):
    """A member to be: the key of its method and its settings, or a classifier of the user's own."""

    key: str
    settings: dict[str, Any]
    own: OnePositiveClassifier | None = None

    def build(self, seed: int, **learnt: Any) -> OnePositiveClassifier:
        """Return the unfitted estimator; ``learnt`` replaces settings."""
        if self.own is not None:
            made: OnePositiveClassifier = clone(self.own)
            return made.set_params(random_state=seed) if "random_state" in made.get_params(deep=False) else made
        return make_classifier(self.key, **{**self.settings, **learnt, "random_state": seed})

    @property
    def is_network(self) -> bool:
        """Whether the models of all folds are kept; of the other kinds one model of all rows replaces them."""
        return self.key in NETWORKS


def is_own(method: Any) -> bool:
    """Whether an entry of ``methods`` is a classifier of the user's own, not a key."""
    return not isinstance(method, str) or ":" in method


def own_candidate(method: Any) -> Candidate:
    """Return the candidate of ``package.module:Class``, a onepos classifier, or any other classifier."""
    if isinstance(method, str):
        return Candidate(method, {}, make_classifier(method))
    if isinstance(method, OnePositiveClassifier):
        return Candidate(key_of(method) or type(method).__name__, {}, method)
    # A member is judged by held-out rows of all members: it needs none to choose its smoothing.
    return Candidate(type(method).__name__, {}, ObservedTagClassifier(estimator=method, smoothing=0.01))


def columns_of(X: Any, n_scores: int, key: str = "") -> Any:
    """Return the columns that a candidate sees: the last ones, which are scores, all, or the others."""
    if not n_scores or key == WITH_SCORES:
        return X
    part = X[:, -n_scores:] if key == "scores" else X[:, :-n_scores]
    return part if sparse.issparse(part) else np.ascontiguousarray(part)


class Shape(NamedTuple):
    """What the choice of candidates depends on."""

    n_rows: int
    n_features: int
    n_labels: int
    is_sparse: bool
    is_bag: bool  # less than a quarter of the entries is not zero

    @classmethod
    def of(cls, X: Any, n_labels: int) -> "Shape":
        """Look at the features."""
        is_sparse = bool(sparse.issparse(X))
        stored = X.nnz if is_sparse else np.count_nonzero(X)
        return cls(X.shape[0], X.shape[1], n_labels, is_sparse, bool(stored < 0.25 * X.shape[0] * X.shape[1]))


def first_candidates(
    keys: tuple[str, ...], shape: Shape, scale: str, n_positives: float | None
) -> tuple[list[Candidate], list[Candidate]]:
    """Return one candidate of each kind: those to try first, and those to try if time is ample."""
    first, later = _BAGS if shape.is_bag else _DENSE
    if "an" in keys and len(keys) < len(KINDS):  # a variant of wan: in the first round only by name
        later = (*later, "an")
    order = [key for key in (*first, *later) if key in keys]
    candidates = [_candidate(key, place, shape, scale, n_positives) for place, key in enumerate(order)]
    n_first = sum(key in keys for key in first) or len(candidates)
    if "forest" in keys and not shape.is_bag and shape.n_rows <= _FEW_ROWS:
        candidates.append(Candidate("forest", {"splitter": "best"}))
    return candidates[:n_first], candidates[n_first:]


def more_candidates(keys: tuple[str, ...], shape: Shape, scale: str, n_positives: float | None) -> Iterator[Candidate]:
    """Yield variants of the networks without end: other losses, scaling, dropout and learning rates."""
    networks = [key for key in _VARIANTS if key in keys]
    place = 1
    while networks:
        for key in networks:
            place += 1
            yield _candidate(key, place, shape, scale, n_positives)


def _candidate(key: str, place: int, shape: Shape, scale: str, n_positives: float | None) -> Candidate:
    settings: dict[str, Any] = {} if key in ("frequency", "forest", "centroid") else {"scale": scale}
    if key in NETWORKS and scale == "auto" and not shape.is_sparse and place % 2 and not shape.is_bag:
        settings["scale"] = "minmax"
    if key in NETWORKS and key != "smile":  # its soft labels replace dropout, and its graph wants small batches
        settings |= _network(key, place, shape)
    if key in ("capped", "smile") and n_positives is not None:
        settings["n_positives"] = n_positives
    return Candidate(key, settings)


def _network(key: str, place: int, shape: Shape) -> dict[str, Any]:
    """Width, dropout, batches and epochs of a network."""
    factor = (1.0, 1.0, 0.5)[place % 3]
    n = shape.n_rows
    share = min(1.0, max(0.1, (_ALL_EPOCHS / n) ** 0.5))  # of the epochs
    common = {"selection_metric": "observed_likelihood", "patience": 6, "pretraining_epochs": 0}
    if not shape.is_bag:
        batch = 32 if n <= 3000 else 64 if n <= 20_000 else max(256, auto_batch_size(n))
        rate = factor * 1e-3 * (min(batch, 256) / 16) ** 0.5
        dropout = (0.5, 0.2)[place % 2]
        sizes: dict[str, Any] = {"dropout": dropout, "batch_size": batch, "learning_rate": rate}
        return {**common, **sizes, "max_epochs": round(40 * share)}
    batch = 64 if n <= 2000 else 128 if n <= 10_000 else max(256, auto_batch_size(n))
    sizes = {"network": (256,), "dropout": 0.5, "batch_size": batch, "learning_rate": factor * 5e-3}
    if key != "wan" and shape.n_rows <= 10_000 and shape.n_features <= 2000:
        # Few rows: hidden layers that know which features go together. Dropped features call for wide layers.
        drop = (0.3, 0.5)[place % 2]
        sizes |= {"network": (512,), "input_dropout": drop, "learning_rate": factor * 2e-3, "pretraining_epochs": 15}
    return {**common, **sizes, "patience": 8 if key == "wan" else 4, "max_epochs": round(30 * share)}

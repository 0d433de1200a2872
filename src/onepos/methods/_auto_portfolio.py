"""What ``auto`` tries, in the order in which it tries it: strong and quick methods first, unlike ones early.

A combination gains from members that err differently, so there is one of each kind: how often a label is observed
anywhere, a linear model, spreading over neighbours, a kernel, networks with four losses and label enhancement. Later
rounds repeat the networks with other seeds, scaling, dropout and learning rates. Bags of rare features, as words are,
want networks first, features dropped and large batches; a kernel and SMILE, whose steps are the dearest, bring nothing
there that the other networks do not have. On dense features SMILE has one turn.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy import sparse

from onepos.methods._base import OnePositiveClassifier
from onepos.methods.assume_negative import AssumeNegativeClassifier
from onepos.methods.capped_softmax import CappedSoftmaxClassifier
from onepos.methods.d2ml import D2MLClassifier
from onepos.methods.frequency import FrequencyClassifier
from onepos.methods.linear import LinearClassifier
from onepos.methods.mlml import MLMLClassifier
from onepos.methods.smile import SMILEClassifier
from onepos.methods.softmax import SoftmaxClassifier
from onepos.selection import OBSERVED_LIKELIHOOD

#: Class and settings by the key that a user would type.
KINDS: dict[str, tuple[type[OnePositiveClassifier], dict[str, Any]]] = {
    "frequency": (FrequencyClassifier, {}),
    "linear": (LinearClassifier, {}),
    "capped": (CappedSoftmaxClassifier, {}),
    "wan": (AssumeNegativeClassifier, {"unobserved_weight": "auto"}),
    "softmax": (SoftmaxClassifier, {}),
    "mlml": (MLMLClassifier, {}),
    "smile": (SMILEClassifier, {}),
    "d2ml": (D2MLClassifier, {"kernel": "rbf"}),
    "an": (AssumeNegativeClassifier, {}),
}
NETWORKS = ("capped", "wan", "softmax", "smile", "an")
#: Those that choose a strength on rows of their own, which they cannot spare unless there are more rows than labels.
CHOOSING = ("linear", "mlml", "d2ml")
#: Classes that a stored combination may name.
CLASSES = {kind.__name__: kind for kind, _ in KINDS.values()}

#: Beyond these sizes the classical methods take longer than all the others together: rows, rows × labels.
_LARGEST_ROWS = {"mlml": 10_000, "d2ml": 5_000}
_LARGEST_ENTRIES = {"linear": 4_000_000, "d2ml": 2_000_000, "smile": 2_000_000}
_LEARNING_RATE = (1e-3, 1e-3, 2e-3, 5e-4)
#: With fewer judging rows for a label, the place of single labels is mostly luck, and a likelihood chooses the epoch.
_ROWS_A_LABEL = 10


@dataclass(frozen=True)
class Candidate:
    """A member to be: the key of its method, its class and its settings."""

    key: str
    kind: type[OnePositiveClassifier]
    settings: dict[str, Any]

    def build(self, seed: int) -> OnePositiveClassifier:
        """Return the unfitted estimator."""
        model = self.kind(**self.settings)
        return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


def candidates(
    methods: tuple[str, ...],
    shape: tuple[int, int, int],
    *,
    scales: tuple[str, ...],
    bags: bool,
    n_judging: int = 0,
    n_positives: float | None = None,
) -> Iterator[Candidate]:
    """Yield candidates without end, round by round; without networks there is one round.

    Parameters
    ----------
    methods : keys of ``KINDS``
    shape : (rows, features, labels)
    scales
        Scaling of networks, taken in turn; a kernel has each of them, the other classical methods the first one.
    bags
        Whether most features of a row are zero.
    n_judging
        Rows that each model is judged by, and its epoch chosen on.
    n_positives
        What is known or guessed of it, for networks that train towards it; None for their own rule.
    """
    n_rows, _, n_labels = shape

    def fits(key: str) -> bool:
        return n_rows <= _LARGEST_ROWS.get(key, n_rows) and n_rows * n_labels <= _LARGEST_ENTRIES.get(key, 1 << 60)

    present = [key for key in KINDS if key in methods and fits(key)]
    if bags:  # unless nothing else is wanted
        present = [key for key in present if key not in ("d2ml", "smile")] or present
    classical = _classical([key for key in present if key not in NETWORKS], scales)
    networks = [key for key in NETWORKS if key in present]
    chooser = {"selection_metric": OBSERVED_LIKELIHOOD} if 0 < n_judging < _ROWS_A_LABEL * n_labels else {}
    if not (bags and networks):
        yield from classical
    for round_number in count() if networks else ():
        for place, key in enumerate(networks):
            if key == "smile" and round_number and len(networks) > 1:  # alone, it has every turn
                continue
            kind, preset = KINDS[key]
            turn = round_number + place
            settings = {
                "scale": scales[turn % len(scales)],
                "learning_rate": _LEARNING_RATE[round_number % len(_LEARNING_RATE)],
                **({"n_positives": n_positives} if key == "capped" and n_positives is not None else {}),
            }
            yield Candidate(key, kind, {**preset, **settings, **chooser, **_regularized(key, turn, n_rows, bags)})
        if bags and not round_number:
            yield from classical


def _classical(keys: list[str], scales: tuple[str, ...]) -> list[Candidate]:
    """One of each; of a kernel one a scaling."""
    found = []
    for key in keys:
        kind, preset = KINDS[key]
        for scale in scales if key == "d2ml" else scales[:1]:
            settings = preset if kind is FrequencyClassifier else {**preset, "scale": scale}
            found.append(Candidate(key, kind, settings))
    return found


def _regularized(key: str, turn: int, n_rows: int, bags: bool) -> dict[str, Any]:
    """Dropout, batches and epochs of a network."""
    if not bags:
        return {"dropout": (0.5, 0.0)[turn % 2], "batch_size": 16 if n_rows <= 10_000 else 64}
    if key == "smile":  # learns from the graph for most of its epochs: larger batches would not get there
        return {"dropout": 0.5, "batch_size": 16 if n_rows <= 10_000 else 64}
    drops = {"input_dropout": (0.5, 0.3)[turn % 2], "dropout": 0.5}
    # What is dropped has to be made up for: wide layers, more epochs.
    common = {**drops, "network": (512,), "max_epochs": 40, "patience": 8}
    if n_rows > 10_000:  # and so many rows say enough about how their features hang together
        return {**common, "batch_size": 128}
    return {**common, "batch_size": 64, "pretraining_epochs": 30}


def settings_for(X: Any, scale: str) -> dict[str, Any]:
    """Scalings to take in turn, and whether rows are bags of rare features.

    ``scale`` is the user's; "auto" leaves sparse features alone and tries two ways on dense ones.
    """
    is_sparse = sparse.issparse(X)
    stored = X.nnz if is_sparse else np.count_nonzero(X)
    scales = (scale,) if scale != "auto" else ("none",) if is_sparse else ("standard", "minmax")
    return {"scales": scales, "bags": bool(stored < 0.25 * X.shape[0] * X.shape[1])}

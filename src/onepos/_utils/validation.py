"""Check what estimators accept: labels and ``random_state``; types and forms of arrays; words of error messages.

An estimator whose fit fails is restored.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.context import warn
from onepos._utils.progress import progress_shown
from onepos.exceptions import LabelWarning

if TYPE_CHECKING:
    import torch

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]

#: Entries above which a sparse indicator stays sparse.
DENSE_LABELS = 1 << 26

#: A dense array, a SciPy sparse matrix or array, or a pandas DataFrame of features.
MatrixLike: TypeAlias = Any

_Method = TypeVar("_Method", bound=Callable[..., Any])


def expected(what: str, value: Any, advice: str = "") -> str:
    """Return a message such as ``max_epochs must be at least 1; got 0. Leave it out for 100.``."""
    return f"{what}; got {value!r}.{advice and ' '}{advice}"


def one_of_names(what: str, value: Any, known: Iterable[str]) -> str:
    """Return a name that is known; else raise ValueError with those that are, and one that looks like it."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(expected(f"{what} must be one of {', '.join(names)}", value, similar(value, names)))


def similar(name: Any, known: Iterable[str]) -> str:
    """Return a question about the name that was perhaps meant; nothing if none is similar."""
    close = get_close_matches(str(name), list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else ""


def shorten(names: Iterable[Any], most: int = 8) -> str:
    """Return names for a message, only the first few if there are many."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (f" … ({len(shown):,} in all)" if len(shown) > most else "")


def to_dense(value: Any) -> NDArray[Any]:
    """Return a dense or sparse matrix as an ndarray."""
    return np.asarray(value.toarray() if sparse.issparse(value) else value)


def csr(*arguments: Any, **options: Any) -> Any:
    """Build a CSR array; arguments as for ``scipy.sparse.csr_array``."""
    return short_indices(sparse.csr_array(*arguments, **options))


def short_indices(matrix: Any) -> Any:
    """Give a CSR matrix indices of 32 bits if they fit: scikit-learn's trees take no others."""
    if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


def has_label(observed: Any) -> NDArray[np.bool_]:
    """Whether each row of an indicator, dense or CSR, has an observed label."""
    return np.asarray((observed > 0).sum(axis=1) > 0)


def cases(observed: Any) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return row, label and share of every observed label of an indicator; labels of a row share its weight."""
    rows, labels = (np.asarray(places, dtype=np.intp) for places in (observed > 0).nonzero())
    return rows, labels, 1.0 / np.bincount(rows, minlength=observed.shape[0])[rows]


def stacked(parts: Sequence[Any]) -> Any:
    """Rows of matrices below each other; a CSR array if the first one is sparse."""
    if sparse.issparse(parts[0]):
        return csr(sparse.vstack([sparse.csr_array(part) for part in parts]))
    return np.concatenate([to_dense(part) for part in parts])


@dataclass(frozen=True)
class Labels:
    """Observed labels in the one form that the library works with."""

    #: The paper's L, int8 of shape (n_samples, n_labels): 1 observed, 0 unknown, −1 known to be absent. An array, or a
    #: CSR array if it came as one and has more than ``DENSE_LABELS`` entries.
    observed: Any
    #: Names of the labels: column names, class values, or 0 … c−1.
    classes: NDArray[Any]
    #: True when y came 1-D: scikit-learn's multi-class contract applies to the output.
    single_label: bool = False
    #: True when every 0 is a true negative: then a row without a positive is an example like any other.
    complete: bool = False

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Rows to learn from, shape (n_samples,): those with an observed positive, or all if labels are complete."""
        return has_label(self.observed) | self.complete


def check_labels(y: Any, *, complete: bool = False) -> Labels:
    """Validate training labels: a 1-D vector of classes or a 2-D indicator with entries 1, 0, −1."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass the observed labels as y.")
    if _is_vector(y):
        return _check_classes(y)
    labels = replace(_check_indicator(y), complete=complete)
    empty = int((~labels.labelled).sum())
    seen = np.asarray((labels.observed > 0).sum(axis=0) > 0)
    if not seen.any():
        raise ValueError(
            "y holds no observed positive: every row needs the one label that was seen (a 1 in its column)."
        )
    if empty:
        warn(
            f"{empty} of {labels.observed.shape[0]} rows have no observed positive label; "
            "their features are kept, but they do not count in the loss.",
            LabelWarning,
            stacklevel=3,
        )
    if not seen.all():
        warn(
            f"{(~seen).sum()} of {len(seen)} labels are never observed ({shorten(labels.classes[~seen], 5)}): "
            "nothing can be learnt about them and they will be ranked low.",
            LabelWarning,
            stacklevel=3,
        )
    return labels


def _is_vector(y: Any) -> bool:
    """Tell scikit-learn's 1-D contract (also a single column) from an indicator matrix."""
    shape = y.shape if sparse.issparse(y) else np.asarray(y).shape
    if len(shape) not in (1, 2):
        raise ValueError(f"y must be 1-D (one class per row) or 2-D (an indicator matrix); got shape {shape}.")
    return len(shape) == 1 or shape[1] == 1


def _check_classes(y: Any) -> Labels:
    # Imported here: readers of data files take the names of array types from this module, and need no scikit-learn.
    import pandas as pd
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    values = to_dense(y)
    missing = pd.isna(values.ravel()) if values.dtype == object else np.zeros(1)
    if missing.any():  # scikit-learn looks at numbers only
        raise ValueError(
            f"y holds {missing.sum()} missing values (first: row {int(missing.argmax())}): drop these rows, or fill in "
            "their class."
        )
    vector = column_or_1d(y.toarray() if sparse.issparse(y) else y, warn=True)
    check_classification_targets(vector)
    if vector.dtype.kind in "OUS" and all(isinstance(value, str) for value in vector):
        warn(
            "y has one class per row, so this is ordinary multi-class classification; pass onepos.one_positive(y) to "
            "rank and complete labels",
            LabelWarning,
            stacklevel=5,
        )
    classes, codes = np.unique(vector, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only ({classes.tolist()}): at least two labels are needed to learn anything. "
            "Check that y is the column of labels and not a constant."
        )
    return Labels(np.eye(len(classes), dtype=np.int8)[codes], classes, single_label=True)


def _check_indicator(y: Any) -> Labels:
    if sparse.issparse(y) and y.shape[0] * y.shape[1] > DENSE_LABELS:
        return _check_sparse_indicator(y)
    dense = to_dense(y)
    if dense.dtype.kind not in "biuf":
        try:
            dense = dense.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "y must be an indicator matrix of numbers 1 (observed), 0 (unknown), -1 (known absent); "
                f"got dtype {dense.dtype}. For tags use onepos.one_positive(labels)."
            ) from error
    _check_entries(dense)
    names = np.asarray(y.columns) if hasattr(y, "columns") else np.arange(dense.shape[1])
    if len(set(names.tolist())) != len(names):
        raise ValueError(f"the label names (columns of y) must be distinct; got {names.tolist()}.")
    return Labels(dense.astype(np.int8), names)


def _check_entries(values: NDArray[Any]) -> None:
    """Raise unless all entries of an indicator are 1, 0 or −1."""
    bad = values[~np.isin(values, (-1, 0, 1))]
    if bad.size:
        raise ValueError(
            "Unknown label type: y must hold 1 (observed), 0 (unknown) or -1 (known absent) only; "
            f"found {bad.flat[0]!r}. For tags, one per row, use onepos.one_positive(labels)."
        )


def _check_sparse_indicator(y: Any) -> Labels:
    observed = sparse.csr_array(y)
    _check_entries(observed.data)
    observed = short_indices(observed.astype(np.int8))
    observed.sum_duplicates()  # sorts the labels of a row, too
    return Labels(observed, np.arange(observed.shape[1]))


def check_validation_labels(y: Any, classes: NDArray[Any]) -> Any:
    """Validation labels as an int8 indicator whose columns are those of training, in the same order."""
    if _is_vector(y):
        vector = to_dense(y).ravel()
        unknown = ~np.isin(vector, classes)
        if unknown.any():
            raise ValueError(
                f"validation labels hold classes that training never saw: {sorted(set(vector[unknown].tolist()))[:5]}."
            )
        return np.asarray(vector[:, None] == classes[None, :], dtype=np.int8)
    labels, names = _check_indicator(y), classes.tolist()
    if not hasattr(y, "columns"):
        if labels.observed.shape[1] != len(names):
            raise ValueError(
                f"validation labels must have {len(names)} columns as in training; got {labels.observed.shape[1]}."
            )
        return labels.observed
    own = labels.classes.tolist()
    if set(own) != set(names):
        raise ValueError(
            f"the validation labels' columns must be those of training; training has {names[:5]}…, "
            f"validation has {own[:5]}…"
        )
    place = {name: number for number, name in enumerate(own)}
    return labels.observed[:, [place[name] for name in names]]


def check_label_scores(label_scores: Any, labels: Labels) -> NDArray[np.float32]:
    """Return the ``label_scores`` of ``fit`` as float32, (n_samples, n_labels); a frame is matched by column names."""
    names = labels.classes.tolist()
    if hasattr(label_scores, "columns"):
        columns = label_scores.columns.tolist()
        if set(columns) != set(names) or len(columns) != len(names):
            raise ValueError(f"the columns of label_scores must be the labels of y, {names[:5]}…; got {columns[:5]}…")
        label_scores = label_scores[names]
    scores = np.ascontiguousarray(label_scores, dtype=np.float32)
    if scores.shape != labels.observed.shape:
        raise ValueError(
            f"label_scores must have a row for each row of y and a column for each label, shape "
            f"{labels.observed.shape}; got {scores.shape}."
        )
    outside = scores[~(np.isnan(scores) | ((scores >= 0) & (scores <= 1)))]
    if outside.size:
        raise ValueError(
            f"label_scores must be probabilities, between 0 and 1, or NaN where nothing is known; got {outside[0]}. "
            "Logits become probabilities by scipy.special.expit."
        )
    return scores


@contextmanager
def unchanged_on_error(model: Any) -> Iterator[None]:
    """Fit a model in the body: if it raises, the model has the attributes that it had before.

    The body must not change objects that an earlier fit made; it makes new ones. Progress is shown if the model has
    ``verbose``.
    """
    before = dict(model.__dict__)
    try:
        with progress_shown(type(model).__name__) if getattr(model, "verbose", 0) else nullcontext():
            yield
    except BaseException:  # Ctrl-C too
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


def all_or_nothing(fit: _Method) -> _Method:
    """Decorate a method that fits its object: ``unchanged_on_error``."""

    @wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        with unchanged_on_error(self):
            return fit(self, *args, **kwargs)

    return cast(_Method, fit_or_restore)


def seed_from(random_state: Any) -> int:
    """Turn scikit-learn's ``random_state`` (None, int, RandomState, Generator) into one integer seed."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    what = "random_state must be None, a non-negative integer, numpy.random.RandomState or numpy.random.Generator"
    raise ValueError(expected(what, random_state))


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator; a Generator is used as it is, and its state advances."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_from(random_state))


def numpy_generator(random_state: Any) -> np.random.Generator:
    """Return the NumPy generator of ``spawn``, for methods without a network."""
    return np.random.default_rng(np.random.SeedSequence(seed_from(random_state)).spawn(1)[0])


def spawn(random_state: Any, device: str = "cpu") -> "tuple[np.random.Generator, torch.Generator]":
    """Return a NumPy and a torch generator, independent of each other and of all global state."""
    import torch

    numpy_seed, torch_seed = np.random.SeedSequence(seed_from(random_state)).spawn(2)
    torch_generator = torch.Generator(device)
    torch_generator.manual_seed(int(torch_seed.generate_state(1, np.uint64)[0] >> np.uint64(1)))
    return np.random.default_rng(numpy_seed), torch_generator

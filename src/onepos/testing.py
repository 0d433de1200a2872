"""Checks that any onepos estimator must pass, for the methods here and for those that users write.

scikit-learn's ``check_estimator`` covers features (NaN, text, wrong shapes) and the single-label contract (1-D y).
Its checks also cover pickling, predictions before fit, and of single rows. These checks cover the rest: indicator
input, label names, unknown and known-absent labels, files, threads.
"""

import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest import TestCase, mock

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags
from threadpoolctl import threadpool_info

from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning, ModelFileError
from onepos.methods._base import OnePositiveClassifier
from onepos.metrics import average_precision
from onepos.persistence import load

__all__ = ["check_onepos_estimator", "yield_onepos_checks"]

Check = Callable[[OnePositiveClassifier], None]
NAMES = ["red", "green", "blue", "grey"]
N_ROWS, N_FEATURES = 120, 5
#: A context manager that requires an error whose message matches.
expect = TestCase().assertRaisesRegex


@cache
def example() -> Any:
    """Return 120 rows with five features and four labels, in read-only arrays."""
    data = make_known_posterior(N_ROWS, N_FEATURES, len(NAMES), random_state=2)
    for array in (data.X, data.Y, data.observed):
        array.flags.writeable = False  # an estimator that writes to its input fails
    return data


def target(estimator: OnePositiveClassifier) -> Any:
    """Return the labels that the estimator learns from: complete ones for full supervision, else one per row."""
    return example().Y if estimator._y_is_full else example().observed


def fitted(estimator: OnePositiveClassifier, X: Any = None, Y: Any = None) -> Any:
    """Fit a clone, on the example unless other data are given."""
    X = example().X if X is None else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(X, target(estimator) if Y is None else Y)


def named(values: Any) -> pd.DataFrame:
    """Return labels as a frame with their names as columns."""
    return pd.DataFrame(values, columns=NAMES)


@contextmanager
def expect_warning(pattern: str) -> Iterator[None]:
    """Require a LabelWarning whose message matches."""
    # Not assertWarnsRegex, which asks every loaded module for an attribute and thereby wakes lazy ones.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    said = [str(w.message) for w in caught if issubclass(w.category, LabelWarning)]
    assert any(re.search(pattern, text) for text in said), f"fit must warn /{pattern}/; it warned {said}."


def yield_onepos_checks(estimator: OnePositiveClassifier) -> Iterator[tuple[str, Check]]:
    """Yield ``(name, check)`` for an unfitted estimator; ``check(estimator)`` raises AssertionError if it fails."""
    for check in _CHECKS:
        if check is check_rows_without_positive and estimator._y_is_full:
            continue
        if check is check_sparse_equals_dense and not get_tags(estimator).input_tags.sparse:
            continue
        yield check.__name__, check


def check_onepos_estimator(estimator: OnePositiveClassifier) -> None:
    """Run all checks on an unfitted estimator; the first failure raises AssertionError with the name of the check.

    Examples
    --------
    >>> import onepos
    >>> from onepos.testing import check_onepos_estimator
    >>> check_onepos_estimator(onepos.FrequencyClassifier())
    """
    for name, check in yield_onepos_checks(estimator):
        try:
            check(estimator)
        except Exception as error:
            raise AssertionError(f"{type(estimator).__name__} fails {name}: {error}") from error


def check_indicator_input(estimator: OnePositiveClassifier) -> None:
    """An indicator as array, list, boolean array, frame or sparse matrix gives the same model, one column per label."""
    X, Y = example().X, target(estimator)
    plain = fitted(estimator).predict_proba(X)
    assert plain.shape == Y.shape, f"expected probabilities of shape {Y.shape}, got {plain.shape}"
    assert ((plain >= 0) & (plain <= 1)).all(), "probabilities must lie in [0, 1]"
    for form in (Y.tolist(), Y.astype(bool), named(Y), sparse.csr_array(Y)):
        other = fitted(estimator, Y=form).predict_proba(X)
        assert np.array_equal(plain, other), f"Y as {type(form).__name__} gives another model than as an array"


def check_label_names(estimator: OnePositiveClassifier) -> None:
    """Columns of a frame are ``classes_``, and of the frames that ``set_output`` asks for; rows keep their index."""
    X = pd.DataFrame(example().X, index=[f"row{i}" for i in range(N_ROWS)]).rename(columns=str)
    model = fitted(estimator, X, named(target(estimator)).set_index(X.index))
    assert model.classes_.tolist() == NAMES
    model.set_output(transform="pandas")
    for frame in (model.predict(X), model.predict_proba(X), model.decision_function(X)):
        assert frame.columns.tolist() == NAMES
        assert frame.index.tolist() == X.index.tolist()
    assert isinstance(model.set_output(transform="default").predict(X), np.ndarray)


def check_known_absent(estimator: OnePositiveClassifier) -> None:
    """−1, known to be absent, is accepted beside 1 and 0 and gives finite predictions."""
    Y = np.array(target(estimator), dtype=np.int8)
    rows, columns = np.nonzero((example().Y == 0) & (Y == 0))
    Y[rows[::3], columns[::3]] = -1
    assert np.isfinite(fitted(estimator, Y=Y).predict_proba(example().X)).all()


def check_rows_without_positive(estimator: OnePositiveClassifier) -> None:
    """Rows without an observed positive are counted in a warning and left out; completed labels still cover them."""
    Y = np.array(example().observed)
    Y[:7] = 0
    with expect_warning(f"7 of {N_ROWS} rows have no observed positive"):
        model = clone(estimator).fit(example().X, Y)
    if hasattr(model, "soft_labels_"):
        assert model.soft_labels_.shape == Y.shape
        assert np.isfinite(model.soft_labels_).all()


def check_label_never_observed(estimator: OnePositiveClassifier) -> None:
    """A label that no row shows is named in a warning and still has a column."""
    Y = named(target(estimator)).assign(never=0)
    with expect_warning(r"1 of 5 labels are never observed \(never\)"):
        model = clone(estimator).fit(example().X, Y)
    probabilities = model.predict_proba(example().X)
    assert probabilities.shape == Y.shape
    assert np.isfinite(probabilities).all()


def check_predictions_agree(estimator: OnePositiveClassifier) -> None:
    """Probabilities are the sigmoid of the logits, sets those at ``thresholds_``, the score is average precision."""
    X = example().X
    model = fitted(estimator)
    logits, probabilities = model.decision_function(X), model.predict_proba(X)
    assert np.isfinite(logits).all(), "logits must be finite"
    assert np.allclose(1 / (1 + np.exp(-logits)), probabilities, atol=1e-12)
    sets = probabilities >= model.thresholds_
    if model.at_least_one_:
        empty = np.flatnonzero(~sets.any(axis=1))
        sets[empty, probabilities[empty].argmax(axis=1)] = True
    assert np.array_equal(model.predict(X), sets.astype(int))
    assert np.isclose(model.score(X, example().Y), average_precision(example().Y, logits))


def check_same_seed_same_bits(estimator: OnePositiveClassifier) -> None:
    """Two fits with one seed give the same bits, and nothing global is seeded or drawn from."""
    seeded = clone(estimator).set_params(random_state=7)
    before = (np.random.get_state()[1].copy(), torch.get_rng_state())  # type: ignore[index]  # noqa: NPY002
    first, second = fitted(seeded), fitted(seeded)
    after = (np.random.get_state()[1], torch.get_rng_state())  # type: ignore[index]  # noqa: NPY002
    assert np.array_equal(before[0], after[0]), "the global random state of NumPy was used"
    assert torch.equal(before[1], after[1]), "the global random state of torch was used"
    assert np.array_equal(first.decision_function(example().X), second.decision_function(example().X))
    if hasattr(first, "soft_labels_"):
        assert np.array_equal(first.soft_labels_, second.soft_labels_)


def check_sparse_equals_dense(estimator: OnePositiveClassifier) -> None:
    """CSR features give the model that the same features give as an array, when neither is scaled."""
    X = np.maximum(example().X, 0.0)
    unscaled = clone(estimator)
    if "scale" in estimator.get_params(deep=False):
        unscaled.set_params(scale="none")  # "auto" leaves sparse features alone and standardises dense ones
    dense = fitted(unscaled, X).predict_proba(X)
    for form in (sparse.csr_array(X), sparse.csr_matrix(X)):
        assert np.allclose(dense, fitted(unscaled, form).predict_proba(form), atol=1e-4)


def check_save_and_load(estimator: OnePositiveClassifier) -> None:
    """A saved model comes back with its parameters and names and predicts the same bits, or save says why not."""
    X = pd.DataFrame(example().X, columns=list("vwxyz"))
    model = fitted(estimator, X, named(target(estimator)))
    with tempfile.TemporaryDirectory() as folder:
        if getattr(estimator, "not_stored", ""):
            with expect(ModelFileError, re.escape(estimator.not_stored)):
                model.save(Path(folder) / "model.onepos")
            return
        again = load(model.save(Path(folder) / "model.onepos"))
    assert type(again) is type(model)
    assert again.classes_.tolist() == NAMES
    assert again.feature_names_in_.tolist() == list(X.columns)
    assert _comparable(again.get_params()) == _comparable(model.get_params())
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    if hasattr(model, "history_"):
        assert again.history_.records == model.history_.records
        assert again.history_.facts == model.history_.facts


def _comparable(params: dict[str, object]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in params.items()}


def check_bad_labels(estimator: OnePositiveClassifier) -> None:
    """Wrong length, shape, values, repeated names, text in an indicator, nothing observed, one class."""
    Y = np.array(target(estimator))
    elsewhere = np.arange(Y.size).reshape(Y.shape) != 5
    values = r"must hold 1 .observed., 0 .unknown. or -1"
    for doing, wrong, pattern in (
        ("a label row missing", Y[:-1], f"same number of rows; got {N_ROWS} and {N_ROWS - 1}"),
        ("3-D labels", Y[:, :, None], r"1-D .* or 2-D"),
        ("2 as a label", np.where(elsewhere, Y, 2.0), values),
        ("½ as a label", np.where(elsewhere, Y, 0.5), values),
        ("NaN as a label", np.where(elsewhere, Y, np.nan), values),
        ("two labels of one name", pd.DataFrame(Y, columns=["a", "b", "c", "a"]), "distinct"),
        ("text in an indicator", np.full((N_ROWS, 3), "cat", dtype=object), "one_positive"),
        ("no positive at all", np.zeros_like(Y), "no observed positive"),
        ("one class", np.ones(N_ROWS), "class"),
    ):
        with expect(ValueError, pattern, msg=f"fit with {doing}"):
            fitted(estimator, Y=wrong)


def check_failed_refit(estimator: OnePositiveClassifier) -> None:
    """A fit that fails, early or late, leaves the estimator as it was before the call."""
    model, wide = fitted(estimator), np.column_stack([example().X, example().X])
    learnt, logits = dict(vars(model)), model.decision_function(example().X)
    for doing, Y, where in (
        ("labels that are none", np.full((N_ROWS, 2), 7), None),
        ("an error at the end", np.eye(3, dtype=int)[np.arange(N_ROWS) % 3], "_cut_at"),
    ):
        late = mock.patch.object(type(model), where, side_effect=ValueError("late")) if where else nullcontext()
        with late, expect(ValueError, "must hold 1|late", msg=f"fit with {doing}"):
            model.fit(wide, Y)
        changed = [name for name in {*vars(model), *learnt} if vars(model).get(name) is not learnt.get(name)]
        assert not changed, f"fit with {doing} failed and changed {', '.join(sorted(changed))}"
        assert np.array_equal(model.decision_function(example().X), logits), f"{doing}: the old model has changed"


def check_extreme_magnitudes(estimator: OnePositiveClassifier) -> None:
    """Finite features of any size give finite answers, or a ValueError that says which sizes are allowed."""
    model, plain = fitted(estimator), example().X.astype(np.float64)
    constant = np.column_stack([plain, np.zeros(N_ROWS), np.full(N_ROWS, 1e6)])
    assert np.isfinite(fitted(estimator, constant).predict_proba(constant)).all(), "constant features do harm"
    for size in (1e-310, 1e-30, 1e30, 1e38, 1e39, 1e300):
        for X in (plain * size, np.column_stack([plain[:, 1:], plain[:, 0] * size])):
            for doing, ask in (
                ("predict", model.decision_function),
                ("fit and predict", lambda X: fitted(estimator, X).decision_function(X)),
            ):
                what = f"{doing} with features of size {size:g}"
                try:
                    assert np.isfinite(ask(X)).all(), f"{what} gives NaN or infinity"
                except ValueError as error:
                    if not re.search("float32|finite|diverged", str(error)):
                        raise AssertionError(f"{what} raises an error without a reason: {error}") from error
    with expect(ValueError, "range of float32", msg="predict with features of size 1e39"):
        model.predict(plain * 1e39)


def check_threads(estimator: OnePositiveClassifier) -> None:
    """Fits and predictions in several threads at once give the bits of one after the other, and change no limits."""

    def limits() -> dict[str, int]:
        return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}

    def fit_anew() -> Any:
        return clone(seeded).fit(example().X, target(estimator)).decision_function(example().X)

    before, seeded = limits(), clone(estimator).set_params(random_state=7)
    model = fitted(seeded)
    logits = model.decision_function(example().X)
    with ThreadPoolExecutor(3) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = [pool.submit(model.decision_function, example().X) for _ in range(3)]
        for answer in (*asked, *[pool.submit(fit_anew) for _ in range(2)]):
            assert np.array_equal(answer.result(), logits), "a fit or prediction beside others is another one"
    assert limits().items() >= before.items(), "the number of threads of a library has changed"


#: All checks of this module, in their order.
_CHECKS: tuple[Check, ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("check_") and name != "check_onepos_estimator"
)

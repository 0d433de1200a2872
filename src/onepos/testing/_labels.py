"""Labels in: indicator arrays, frames and sparse matrices, names, unknown, absent, never observed."""

import numpy as np
import pandas as pd
from scipy import sparse

from onepos.exceptions import LabelWarning
from onepos.methods._base import OnePositiveClassifier
from onepos.testing._tools import N_ROWS, NAMES, Check, example, expect_warning, fitted, named, target


def check_indicator_input(estimator: OnePositiveClassifier) -> None:
    """An indicator as array, list, boolean array, frame or sparse matrix gives the same model, one column a label."""
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
    with expect_warning(LabelWarning, f"7 of {N_ROWS} rows have no observed positive", "fit with seven empty rows"):
        model = _fit_aloud(estimator, Y)
    if hasattr(model, "soft_labels_"):
        assert model.soft_labels_.shape == Y.shape
        assert np.isfinite(model.soft_labels_).all()


def check_label_never_observed(estimator: OnePositiveClassifier) -> None:
    """A label that no row shows is named in a warning and still has a column."""
    Y = named(target(estimator)).assign(never=0)
    with expect_warning(LabelWarning, r"1 of 5 labels are never observed \(never\)", "fit with an unseen label"):
        model = _fit_aloud(estimator, Y)
    probabilities = model.predict_proba(example().X)
    assert probabilities.shape == Y.shape
    assert np.isfinite(probabilities).all()


def _fit_aloud(estimator: OnePositiveClassifier, Y: object) -> OnePositiveClassifier:
    from sklearn.base import clone

    return clone(estimator).fit(example().X, Y)  # type: ignore[no-any-return]


CHECKS: tuple[Check, ...] = (
    check_indicator_input,
    check_label_names,
    check_known_absent,
    check_rows_without_positive,
    check_label_never_observed,
)

"""Bad input: errors that say what was expected and what came."""

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from onepos.methods._base import OnePositiveClassifier
from onepos.testing._tools import N_FEATURES, N_ROWS, Check, example, expect, fitted, target


def check_not_fitted(estimator: OnePositiveClassifier) -> None:
    """Predictions before fit are refused."""
    for name in ("predict", "predict_proba", "decision_function"):
        with expect(NotFittedError, "not fitted", f"{name} before fit"):
            getattr(clone(estimator), name)(example().X)


def check_bad_features(estimator: OnePositiveClassifier) -> None:
    """NaN, infinity, text, wrong shape, other columns at prediction than at fit."""
    model = fitted(estimator)
    for bad in (np.nan, np.inf, -np.inf):
        X = np.array(example().X)
        X[3, 2] = bad
        with expect(ValueError, "NaN|infinity", f"fit with {bad} in X"):
            fitted(estimator, X)
        with expect(ValueError, "NaN|infinity", f"predict with {bad} in X"):
            model.predict(X)
    with expect(ValueError, "could not convert string", "fit with text in X"):
        fitted(estimator, example().X.astype(str).astype(object) + "x")
    with expect(ValueError, "2D array", "fit with a 1-D X"):
        fitted(estimator, example().X[:, 0])
    with expect(ValueError, f"expecting {N_FEATURES} features", "predict with fewer columns"):
        model.predict(example().X[:, :3])
    frame = pd.DataFrame(example().X, columns=list("vwxyz"))
    with expect(ValueError, "feature names", "predict with columns in another order"):
        fitted(estimator, frame).predict(frame[list("zyxwv")])


def check_bad_labels(estimator: OnePositiveClassifier) -> None:
    """Wrong length, shape, values, repeated names, text in an indicator, nothing observed, one class."""
    Y = np.array(target(estimator))
    with expect(ValueError, f"same number of rows; got {N_ROWS} and {N_ROWS - 1}", "fit with a label row missing"):
        fitted(estimator, Y=Y[:-1])
    with expect(ValueError, r"1-D .* or 2-D", "fit with 3-D labels"):
        fitted(estimator, Y=Y[:, :, None])
    for value in (2.0, 0.5, np.nan):
        wrong = Y.astype(float)
        wrong[5, 1] = value
        with expect(ValueError, r"must hold 1 .observed., 0 .unknown. or -1", f"fit with {value} as a label"):
            fitted(estimator, Y=wrong)
    with expect(ValueError, "distinct", "fit with two labels of one name"):
        fitted(estimator, Y=pd.DataFrame(Y, columns=["a", "b", "c", "a"]))
    with expect(ValueError, "one_positive", "fit with text in an indicator"):
        fitted(estimator, Y=np.full((N_ROWS, 3), "cat", dtype=object))
    with expect(ValueError, "no observed positive", "fit with no positive at all"):
        fitted(estimator, Y=np.zeros_like(Y))
    with expect(ValueError, "class", "fit with one class"):
        fitted(estimator, Y=np.ones(N_ROWS))


def check_harmless_columns(estimator: OnePositiveClassifier) -> None:
    """Constant features, however large, do no harm."""
    X = np.column_stack([example().X, np.zeros(N_ROWS), np.full(N_ROWS, 1e6)])
    assert np.isfinite(fitted(estimator, X).predict_proba(X)).all()


CHECKS: tuple[Check, ...] = (check_not_fitted, check_bad_features, check_bad_labels, check_harmless_columns)

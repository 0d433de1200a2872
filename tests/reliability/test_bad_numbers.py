"""Numbers that break arithmetic, for every method: a clear ValueError or TypeError, or finite probabilities."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import DataConversionWarning

import onepos
from method_kinds import long_for_others
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import METHODS, make_classifier

#: One setting instead of a grid; two epochs; small networks.
QUICK = {
    "auto": {"methods": ("kernel", "softmax"), "n_folds": 2, "time_budget": None},
    "forest": {"n_trees": 20},
    "logistic": {"l2": 1.0},
}
DATA = make_known_posterior(24, 3, 3, random_state=0)
X, Y = np.asarray(DATA.X, dtype=np.float64), np.asarray(DATA.observed)


def build(key):
    settings = {"random_state": 0}
    if issubclass(METHODS[key].load_class(), NeuralClassifier):
        settings |= {"max_epochs": 2, "network": (4,), "batch_size": 8}
    return make_classifier(key, **settings, **QUICK.get(key, {}))


def _one_row(n_labels):
    return X[:1], np.eye(1, n_labels, dtype=int)


def _imbalanced():
    observed = np.zeros((24, 3), dtype=int)
    observed[:, 0] = 1
    observed[7] = [0, 1, 0]
    return X, observed


def _many_labels():
    return X[:6], np.eye(40, dtype=int)[[0, 5, 9, 20, 33, 39]]


#: Data that must be taken or refused in words; what they are, by name.
HARD = {
    "huge": (X * 1e30, Y),
    "denormal": (X * 1e-310, Y),
    "huge and tiny": (X * np.array([1e30, 1e-30, 1.0]), Y),
    "far from zero": (X + 1e8, Y),
    "constant column": (np.column_stack([X, np.full(24, 7.0)]), Y),
    "all constant": (np.full((24, 3), 3.0), Y),
    "equal columns": (np.column_stack([X, X, X]), Y),
    "equal rows": (np.repeat(X[:1], 24, axis=0), Y),
    "one row": _one_row(3),
    "one row, one label": _one_row(1),
    "two rows": (X[:2], np.eye(3, dtype=int)[[0, 2]]),
    "one label": (X, np.ones((24, 1), dtype=int)),
    "two labels": (X, np.eye(2, dtype=int)[np.arange(24) % 2]),
    "more labels than rows": _many_labels(),
    "labels never observed": (X, np.column_stack([Y, np.zeros((24, 2), dtype=int)])),
    "one label nearly always": _imbalanced(),
}


def fitted(key, X, Y):
    """The model, or None after a refusal in words. Warnings are the library's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        warnings.simplefilter("ignore", TrainingWarning)
        warnings.simplefilter("ignore", DataConversionWarning)  # scikit-learn's, for one column of labels
        try:
            return build(key).fit(X, Y)
        except (ValueError, TypeError) as error:
            if len(str(error)) < 20:
                raise AssertionError("a refusal says why") from error
            return None


def check_finite(model, X, n_labels):
    probabilities = np.asarray(model.predict_proba(X))
    assert probabilities.shape == (X.shape[0], n_labels)
    assert np.isfinite(probabilities).all()
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    if hasattr(model, "network_"):
        assert all(torch.isfinite(weight).all() for weight in model.network_.state_dict().values())


@pytest.mark.parametrize("key", long_for_others())
def test_hard_data_are_refused_in_words_or_give_finite_answers(key):
    refused = []
    for name, (features, observed) in HARD.items():
        model = fitted(key, features, observed)
        if model is None:
            refused.append(name)
        else:
            check_finite(model, features, observed.shape[1])
    # Arithmetic in 32 bits cannot hold it, or nothing can be learnt of it.
    allowed = {"huge", "huge and tiny", "denormal", "one row", "one row, one label", "two rows", "one label"}
    assert set(refused) <= allowed


KINDS = {
    "float16": X.astype(np.float16),
    "float32": X.astype(np.float32),
    "int": (X * 10).astype(np.int64),
    "uint8": np.abs(X * 10).astype(np.uint8),
    "bool": X > 0,
    "numbers as objects": X.astype(object),
    "columns first": np.asfortranarray(X),
    "every second row": np.repeat(X, 2, axis=0)[::2],
    "backwards": X[::-1][::-1],
    "other byte order": X.astype(">f8"),
    "list": X.tolist(),
    "frame with odd index": pd.DataFrame(X, columns=list("abc"), index=[f"row {i % 7}" for i in range(24)]),
    "frame with two indices": pd.DataFrame(
        X, columns=list("abc"), index=pd.MultiIndex.from_product([range(4), range(6)])
    ),
    "frame of nullable numbers": pd.DataFrame(X, columns=list("abc")).convert_dtypes(),
}


@pytest.mark.parametrize("key", ["an", "smile", "softmax", "logistic", "frequency"])
def test_every_kind_of_numbers_gives_the_answers_of_the_same_numbers_in_float64(key):
    for name, features in KINDS.items():
        same = np.asarray(features, dtype=np.float64)
        found = np.asarray(build(key).fit(features, Y).predict_proba(features))
        expected = build(key).fit(same, Y).predict_proba(same)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("key", ["smile"])
@pytest.mark.parametrize("k", [23, 24, 1000])
def test_as_many_neighbours_as_rows(key, k):
    model = build(key).set_params(n_neighbors=k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        check_finite(model.fit(X, Y), X, 3)


@pytest.mark.parametrize("rate", [1e3, 1e30])
@pytest.mark.parametrize("key", ["an", "smile", "role"])
def test_training_that_runs_away_keeps_finite_weights(key, rate):
    model = build(key).set_params(learning_rate=rate, max_epochs=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        try:
            model.fit(X, Y)
        except ValueError as error:
            if "diverged" not in str(error) and "finite" not in str(error):
                raise
            return
    check_finite(model, X, 3)


def test_onepos_names_are_not_shadowed_by_the_data():
    frame = pd.DataFrame(X, columns=["fit", "predict", "__class__"])
    check_finite(onepos.make_classifier("logistic", l2=1.0).fit(frame, Y), frame, 3)

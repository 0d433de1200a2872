"""What comes out: agreeing predictions, the same bits for the same seed, sparse as dense, a file that opens again."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from sklearn.base import clone

from onepos.methods._base import OnePositiveClassifier
from onepos.metrics import average_precision
from onepos.persistence import load
from onepos.testing._tools import NAMES, Check, example, fitted, named, target


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


def check_row_by_row(estimator: OnePositiveClassifier) -> None:
    """What is predicted for a row does not depend on the rows beside it."""
    X = example().X
    model = fitted(estimator)
    alone = np.vstack([model.decision_function(X[i : i + 1]) for i in range(10)])
    assert np.allclose(alone, model.decision_function(X)[:10], rtol=1e-5, atol=1e-6)


def check_same_seed_same_bits(estimator: OnePositiveClassifier) -> None:
    """Two fits with one seed give the same bits, and nothing global is seeded or drawn from."""
    names = estimator.get_params(deep=False)
    seeded = clone(estimator).set_params(random_state=7) if "random_state" in names else clone(estimator)
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
    """A saved model comes back with its parameters and names and predicts the same bits."""
    X = pd.DataFrame(example().X, columns=list("vwxyz"))
    model = fitted(estimator, X, named(target(estimator)))
    with tempfile.TemporaryDirectory() as folder:
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


CHECKS: tuple[Check, ...] = (
    check_predictions_agree,
    check_row_by_row,
    check_same_seed_same_bits,
    check_sparse_equals_dense,
    check_save_and_load,
)

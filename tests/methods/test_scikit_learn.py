"""scikit-learn's own checks, with no expected failure, and the tools people combine estimators with."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from onepos.datasets import make_known_posterior
from onepos.registry import METHODS, make_classifier


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(240, 6, 4, random_state=0)


def _checks():
    for key in METHODS:
        params = {} if key == "frequency" else {"random_state": 0}
        for estimator, check in estimator_checks_generator(make_classifier(key, **params)):
            name = getattr(check, "func", check).__name__
            yield pytest.param(estimator, check, id=f"{key}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore")  # the checks feed odd data on purpose; their own assertions look at warnings
def test_check_estimator(estimator, check):
    check(estimator)


def test_pandas_names_are_kept_and_checked(method, quick, data):
    X = pd.DataFrame(data.X, columns=[f"f{j}" for j in range(6)])
    Y = pd.DataFrame(data.observed, columns=list("abcd"))
    model = quick(method).fit(X, Y)
    assert model.classes_.tolist() == list("abcd")
    assert model.feature_names_in_.tolist() == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[list(reversed(X.columns))])


def test_pandas_out_on_request(method, quick, data):
    X = pd.DataFrame(data.X, index=[f"row{i}" for i in range(len(data.X))]).rename(columns=str)
    Y = pd.DataFrame(data.observed, columns=list("abcd"))
    model = clone(quick(method).set_output(transform="pandas")).fit(X, Y)
    for frame in (model.predict(X), model.predict_proba(X), model.decision_function(X)):
        assert isinstance(frame, pd.DataFrame)
        assert frame.columns.tolist() == list("abcd")
        assert frame.index.tolist() == X.index.tolist()
    assert isinstance(model.set_output(transform="default").predict(X), np.ndarray)
    with pytest.raises(ValueError, match="pandas"):
        model.set_output(transform="polars")


def test_sparse_features_and_labels_equal_dense(method, quick, data):
    binary = (data.X > 0).astype(np.float64)
    dense = quick(method).fit(binary, data.observed)
    from_csr = quick(method).fit(sparse.csr_array(binary), sparse.csr_array(data.observed))
    assert np.allclose(dense.predict_proba(binary), from_csr.predict_proba(sparse.csr_matrix(binary)), atol=1e-5)


def test_pipeline_clone_and_grid_search(method, quick, data):
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), quick(method))
    step = pipeline.steps[-1][0]
    grids = {"frequency": {}, "linear": {f"{step}__l2": [(1.0,), (10.0,)]}}
    grid = grids.get(method, {f"{step}__learning_rate": [1e-2, 1e-3]})
    search = GridSearchCV(pipeline, grid, cv=KFold(2)).fit(data.X, data.observed)
    assert search.best_score_ > 0.4
    assert clone(search.best_estimator_).get_params().keys() == pipeline.get_params().keys()


def test_score_is_average_precision_on_full_labels(method, quick, data):
    from onepos.metrics import average_precision

    model = quick(method).fit(data.X, data.observed)
    assert model.score(data.X, data.Y) == pytest.approx(average_precision(data.Y, model.predict_proba(data.X)))


def test_predictions_before_fit_are_refused(method, quick, data):
    with pytest.raises(NotFittedError):
        quick(method).predict(data.X)


def test_one_dimensional_y_gives_classes_back(method, quick, data):
    tags = np.array(["ant", "bee", "cat", "dog"])[data.observed.argmax(axis=1)]
    model = quick(method).fit(data.X, tags)
    assert set(model.predict(data.X)) <= set(tags)
    assert np.allclose(model.predict_proba(data.X).sum(axis=1), 1.0)


def test_probabilities_agree_with_logits_and_sets(method, quick, data):
    model = quick(method).fit(data.X, data.observed)
    logits, probabilities = model.decision_function(data.X), model.predict_proba(data.X)
    assert np.allclose(1 / (1 + np.exp(-logits)), probabilities, atol=1e-12)
    assert np.array_equal(model.predict(data.X), (probabilities >= 0.5).astype(int))

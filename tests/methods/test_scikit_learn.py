"""scikit-learn's own checks, with no expected failure, and the tools people combine estimators with."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from method_kinds import KINDS
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import METHODS, make_classifier


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(240, 6, 4, random_state=0)


def _checks():
    """Once a class: keys of the same class differ in the default of a parameter. Kinds come first."""
    keys = sorted(METHODS, key=lambda key: key in KINDS)
    for key in {METHODS[key].class_name: key for key in keys}.values():
        params = {"random_state": 0}
        if key == "auto":
            params |= {"methods": ("logistic", "kernel"), "n_folds": 2, "time_budget": None}
        if key == "forest":
            params |= {"n_trees": 20}
        if issubclass(METHODS[key].load_class(), NeuralClassifier) and key != "an":
            params |= {"early_stopping": False}  # one method chooses its epochs by folds, as by default; it takes long
        for estimator, check in estimator_checks_generator(make_classifier(key, **params)):
            name = getattr(check, "func", check).__name__
            marks = [] if key in KINDS else [pytest.mark.long]
            yield pytest.param(estimator, check, id=f"{key}-{name}", marks=marks)


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore")  # the checks feed odd data on purpose; their own assertions look at warnings
def test_check_estimator(estimator, check):
    check(estimator)


def test_pipeline_clone_and_grid_search(kind, quick, data):
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), quick(kind))
    step = pipeline.steps[-1][0]
    grids = {
        "frequency": {},
        "forest": {"min_samples_leaf": [1, 3]},
        "logistic": {"l2": [1.0, 10.0]},
        "kernel": {"ridge": [1.0, 10.0]},
        "centroid": {"scale": ["none", "minmax"]},
        "auto": {"n_folds": [1, 2]},
    }
    grid = {f"{step}__{name}": values for name, values in grids.get(kind, {"learning_rate": [1e-2, 1e-3]}).items()}
    search = GridSearchCV(pipeline, grid, cv=KFold(2)).fit(data.X, data.observed)
    assert search.best_score_ > 0.4
    assert clone(search.best_estimator_).get_params().keys() == pipeline.get_params().keys()


def test_one_dimensional_y_gives_classes_back(kind, quick, data):
    tags = np.array(["ant", "bee", "cat", "dog"])[data.observed.argmax(axis=1)]
    with pytest.warns(LabelWarning, match=r"ordinary multi-class classification; pass onepos\.one_positive\(y\)"):
        model = quick(kind).fit(data.X, tags)
    assert set(model.predict(data.X)) <= set(tags)
    assert np.allclose(model.predict_proba(data.X).sum(axis=1), 1.0)

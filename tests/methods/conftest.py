import pytest

from method_kinds import long_for_others
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import METHODS, make_classifier

NEURAL = [key for key in METHODS if issubclass(METHODS[key].load_class(), NeuralClassifier)]

#: Two strengths, or two methods, to choose from instead of the default grids.
STRENGTHS = {
    "auto": {"methods": ("logistic", "kernel"), "n_folds": 2, "time_budget": None},
    "forest": {"n_trees": 20},
    "logistic": {"l2": (10.0, 1.0)},
}


@pytest.fixture(params=list(METHODS))
def method(request):
    return request.param


@pytest.fixture(params=long_for_others())
def kind(request):
    """A method of each kind; all others in `make long`."""
    return request.param


@pytest.fixture
def quick():
    """Return a factory of small, fast estimators: few epochs, fixed seed."""

    def build(key, **params):
        settings = {"random_state": 0}
        if key in NEURAL:
            settings |= {"max_epochs": 4, "batch_size": 32}
        settings |= STRENGTHS.get(key, {})
        return make_classifier(key, **{**settings, **params})

    return build

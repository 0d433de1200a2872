"""The default spaces name real parameters, hold values that the methods accept, and never hide a label."""

import pytest

from onepos.methods.registry import METHODS, make_classifier
from onepos.tuning import default_space
from onepos.tuning.spaces import SPACES, check_space, stored


@pytest.mark.parametrize("key", [key for key in METHODS if key not in ("auto", "frequency")])
def test_both_ends_of_every_range_are_accepted(key):
    estimator = make_classifier(key)
    space = check_space(None, estimator)
    ends = {name: values if isinstance(values, list) else values[:2] for name, values in space.items()}
    for position in range(max(map(len, ends.values()))):
        estimator.set_params(**{name: values[position % len(values)] for name, values in ends.items()})
        estimator._validate_params()


def test_every_class_is_a_method_or_a_base():
    assert set(SPACES) - {"NeuralClassifier"} <= {method.class_name for method in METHODS.values()}


def test_a_class_has_its_own_and_what_it_derives_from():
    assert {"learning_rate", "n_neighbors", "elbo_weight"} <= set(default_space(make_classifier("smile")))
    assert default_space(make_classifier("frequency")) == default_space(make_classifier("auto")) == {}


def test_values_outside_are_not_stored():
    rate = (1e-4, 1e-2, "log")
    assert stored(rate, 1e-3) == 1e-3
    assert stored(rate, 1.0) is stored(rate, "auto") is stored(rate, (1.0, 2.0)) is None
    assert [stored((1, 5), value) for value in (2, 2.0, True, 6)] == [2, None, None, None]
    sizes = ["auto", (64,), 1, True]
    assert [stored(sizes, value) for value in ("auto", (64,), True, "none")] == [0, 1, 3, None]

"""The default spaces name real parameters, hold values that the methods accept, and never hide a label."""

import numpy as np
import pytest

from onepos.methods.registry import METHODS, make_classifier
from onepos.tuning import Choice, LogUniform, default_space
from onepos.tuning.parts import FOLDS, split_rows
from onepos.tuning.spaces import SPACES, check_space


@pytest.mark.parametrize("key", [key for key in METHODS if key not in ("auto", "frequency")])
def test_both_ends_of_every_range_are_accepted(key):
    estimator = make_classifier(key)
    space = check_space(None, estimator)
    ends = {name: getattr(d, "options", None) or (d.low, d.high) for name, d in space.items()}
    for position in range(max(map(len, ends.values()))):
        estimator.set_params(**{name: values[position % len(values)] for name, values in ends.items()})
        estimator._validate_params()


def test_every_class_is_a_method_or_a_base():
    assert set(SPACES) - {"NeuralClassifier"} <= {method.class_name for method in METHODS.values()}


def test_a_class_has_its_own_and_what_it_derives_from():
    assert {"learning_rate", "n_neighbors", "elbo_weight"} <= set(default_space(make_classifier("smile")))
    assert default_space(make_classifier("frequency")) == default_space(make_classifier("auto")) == {}


def test_values_outside_have_no_code():
    rate = LogUniform(1e-4, 1e-2)
    assert rate.code(1e-3) == 1e-3
    assert rate.code(1.0) is rate.code("auto") is rate.code((1.0, 2.0)) is None
    sizes = Choice("auto", (64,), 1, True)
    assert [sizes.code(value) for value in ("auto", (64,), True, "none")] == [0, 1, 3, None]


@pytest.mark.parametrize("n_rows", [30, 2500])
def test_no_label_is_unseen_and_no_row_is_in_two_parts(n_rows):
    rng = np.random.default_rng(0)
    labels = np.minimum(rng.geometric(0.3, size=n_rows), 6) - 1
    labels[:6] = np.arange(6)
    observed = np.eye(6, dtype=np.int8)[labels]
    observed[7] = 0  # without a label
    splits = split_rows(observed, np.flatnonzero(observed.any(axis=1)), rng)
    assert len(splits) == (FOLDS if n_rows < 2000 else 1)
    held = np.concatenate([held for _, held in splits])
    assert len(set(held.tolist())) == len(held)
    for train, part in splits:
        assert observed[train].any(axis=0).all()
        assert sorted([*train, *part]) == list(range(n_rows))
        assert 7 in train


def test_rows_that_cannot_be_spared():
    with pytest.raises(ValueError, match="no row can be held out"):
        split_rows(np.eye(3, dtype=np.int8), np.arange(3), np.random.default_rng(0))

"""Bad input that only some methods can meet; what all must refuse is in onepos.testing."""

import numpy as np
import pandas as pd
import pytest

from onepos import one_positive
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(120, 5, 4, random_state=1)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("learning_rate", -1.0), ("batch_size", 0), ("network", "deep"), ("scale", "robust"), ("dropout", 1.0)],
)
def test_bad_parameters_name_themselves(quick, data, parameter, value):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter"):
        quick("smile", **{parameter: value}).fit(data.X, data.observed)


def test_fewer_rows_than_neighbours_warn(quick, data):
    Y = np.eye(4, dtype=int)[[0, 1, 2, 3]]
    with pytest.warns(LabelWarning, match="n_neighbors=10 needs more than 4 rows; 3"):
        quick("smile", n_neighbors=10).fit(data.X[:4], Y)


def test_validation_set_is_checked(quick, data):
    model = quick("an")
    with pytest.raises(TypeError, match="pair"):
        model.fit(data.X, data.observed, validation=data.X)
    with pytest.raises(ValueError, match="columns as in training; got 3"):
        model.fit(data.X, data.observed, validation=(data.X, data.Y[:, :3]))
    with pytest.raises(ValueError, match="same number of rows"):
        model.fit(data.X, data.observed, validation=(data.X[:5], data.Y))
    with pytest.raises(ValueError, match='"single" or "full"'):
        model.fit(data.X, data.observed, validation=(data.X, data.Y), validation_labels="partial")
    with pytest.raises(ValueError, match="features"):
        model.fit(data.X, data.observed, validation=(data.X[:, :2], data.Y))


def test_validation_columns_are_matched_by_name(quick, data):
    Y = pd.DataFrame(data.observed, columns=list("abcd"))
    full = pd.DataFrame(data.Y, columns=list("abcd"))
    straight = quick("an").fit(data.X, Y, validation=(data.X, full), validation_labels="full")
    shuffled = quick("an").fit(data.X, Y, validation=(data.X, full[list("cadb")]), validation_labels="full")
    assert straight.history_["valid_average_precision"] == shuffled.history_["valid_average_precision"]
    with pytest.raises(ValueError, match="those of training"):
        quick("an").fit(data.X, Y, validation=(data.X, full.rename(columns={"a": "z"})))


class TestOnePositive:
    def test_round_trip(self):
        tags = ["b", "a", "c", "a"]
        frame = one_positive(tags)
        assert frame.columns.tolist() == ["a", "b", "c"]
        assert frame.idxmax(axis=1).tolist() == tags
        assert (frame.sum(axis=1) == 1).all()

    def test_keeps_the_index_of_a_series(self):
        assert one_positive(pd.Series(["x", "y"], index=[7, 9])).index.tolist() == [7, 9]

    @pytest.mark.parametrize(
        ("labels", "classes", "message"),
        [
            (["a", None], None, "first: row 1"),
            (["a", "b"], ["a"], "not in classes"),
            ([["a"], ["b"]], None, "1-D"),
            (["a"], ["a", "a"], "distinct"),
        ],
    )
    def test_errors(self, labels, classes, message):
        with pytest.raises(ValueError, match=message):
            one_positive(labels, classes)


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        ("n_positives", "2", "a number of at least 1, 'estimate' or None"),
        ("batch_size", True, "'auto' or an integer of at least 1"),
        ("max_epochs", 2.5, "an integer of at least 1"),
        ("dropout", float("nan"), "a number of at least 0 and below 1"),
        ("learning_rate_factors", [1.0], "a dict or None"),
        ("network", {"a": 1}, "'auto', a sequence, a Module or a function"),
        ("at_least_one", 1, "True or False"),
    ],
)
def test_a_message_says_what_was_expected(quick, data, parameter, value, expected):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of SMILEClassifier must be {expected}; got"):
        quick("smile", **{parameter: value}).fit(data.X, data.observed)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_class_names_are_counted(quick, data, missing):
    names = np.array(["ant", "bee", "cat", missing] * 60, dtype=object)[: len(data.X)]
    with pytest.raises(ValueError, match=r"y holds \d+ missing values \(first: row 3\): drop these rows"):
        quick("an").fit(data.X, names)

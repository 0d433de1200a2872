"""Every kind of bad input is a clear error, or a documented handling that warns."""

import numpy as np
import pandas as pd
import pytest

from onepos import one_positive
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning
from onepos.registry import METHODS

LEARNERS = [key for key in METHODS if key != "bce"]


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(120, 5, 4, random_state=1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinite_features(method, quick, data, bad):
    X = data.X.copy()
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        quick(method).fit(X, data.observed)
    model = quick(method).fit(data.X, data.observed)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(X)


def test_wrong_shapes(method, quick, data):
    with pytest.raises(ValueError, match="same number of rows; got 120 and 119"):
        quick(method).fit(data.X, data.observed[:-1])
    with pytest.raises(ValueError, match="2D array"):
        quick(method).fit(data.X[:, 0], data.observed)
    with pytest.raises(ValueError, match=r"1-D .* or 2-D"):
        quick(method).fit(data.X, data.observed[:, :, None])


def test_mismatched_feature_count_at_predict(method, quick, data):
    model = quick(method).fit(data.X, data.observed)
    with pytest.raises(ValueError, match="expecting 5 features"):
        model.predict(data.X[:, :3])


@pytest.mark.parametrize("key", LEARNERS)
def test_rows_without_a_positive_warn_with_their_number(quick, data, key):
    Y = data.observed.copy()
    Y[:7] = 0
    with pytest.warns(LabelWarning, match="7 of 120 rows have no observed positive"):
        model = quick(key).fit(data.X, Y)
    if hasattr(model, "soft_labels_"):
        assert model.soft_labels_.shape == Y.shape
        assert np.isfinite(model.soft_labels_).all()


def test_full_supervision_takes_empty_rows_as_they_are(quick, data):
    Y = data.Y.copy()
    Y[:7] = 0
    quick("bce").fit(data.X, Y)  # a warning would be an error here


def test_no_positive_at_all(method, quick, data):
    with pytest.raises(ValueError, match="no observed positive"):
        quick(method).fit(data.X, np.zeros_like(data.observed))


def test_a_label_never_observed_is_named(method, quick, data):
    Y = pd.DataFrame(data.observed, columns=list("abcd"))
    Y["never"] = 0
    with pytest.warns(LabelWarning, match=r"1 of 5 labels are never observed \(never\)"):
        model = quick(method).fit(data.X, Y)
    assert model.predict_proba(data.X).shape == (120, 5)


def test_constant_and_zero_columns_are_harmless(method, quick, data):
    X = np.column_stack([data.X, np.zeros(120), np.full(120, 1e6)])
    assert np.isfinite(quick(method).fit(X, data.observed).predict_proba(X)).all()


def test_one_label_only(method, quick, data):
    with pytest.raises(ValueError, match="class"):
        quick(method).fit(data.X, np.ones(120))


def test_strings_where_numbers_belong(method, quick, data):
    with pytest.raises(ValueError, match="could not convert string"):
        quick(method).fit(data.X.astype(str).astype(object) + "x", data.observed)
    with pytest.raises(ValueError, match="one_positive"):
        quick(method).fit(data.X, np.full((120, 3), "cat", dtype=object))


@pytest.mark.parametrize("value", [2, 0.5, np.nan])
def test_labels_other_than_one_zero_minus_one(method, quick, data, value):
    Y = data.observed.astype(float)
    Y[5, 1] = value
    with pytest.raises(ValueError, match=r"must hold 1 .observed., 0 .unknown. or -1"):
        quick(method).fit(data.X, Y)


def test_repeated_label_names(method, quick, data):
    with pytest.raises(ValueError, match="distinct"):
        quick(method).fit(data.X, pd.DataFrame(data.observed, columns=list("abca")))


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

"""Columns become numbers the same way every time; what cannot is left out or named."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

from onepos.exceptions import DataFileError
from onepos.table import ColumnEncoder, Tally
from onepos.table.files import read_table
from sparse_case import random_csr
from stored_parts import restored

TABLE = pd.DataFrame(
    {
        "size": [1.0, np.nan, 3.0, 8.0],
        "count": [1, 2, 3, 5],
        "sharp": [True, False, True, True],
        "colour": ["red", "blue", None, "red"],
        "words": ["red apple pie", "green sky", "apple sky sky", ""],
    }
)


def test_numbers_are_those_of_scikit_learn_with_the_median_in_the_gaps():
    made = ColumnEncoder(drop=["colour", "words"]).fit(TABLE).transform(TABLE)
    filled = TABLE[["size", "count"]].fillna({"size": 3.0})
    np.testing.assert_allclose(made[:, :2], StandardScaler().fit_transform(filled), atol=1e-6)
    assert made[:, 2].tolist() == [1.0, 0.0, 1.0, 1.0]
    assert made.dtype == np.float32


def test_text_is_tf_idf_of_scikit_learn():
    made = ColumnEncoder(text="words", drop=["size", "count", "sharp", "colour"]).fit(TABLE).transform(TABLE)
    assert sparse.issparse(made)
    expected = TfidfVectorizer(sublinear_tf=True).fit_transform(TABLE["words"])
    np.testing.assert_allclose(made.toarray(), expected.toarray(), atol=1e-7)


def test_categories_unknown_and_missing_ones_are_all_zeros_and_counted():
    encoder = ColumnEncoder(drop=["size", "count", "sharp", "words"]).fit(TABLE)
    tally = Tally()
    made = encoder.transform(TABLE.assign(colour=["blue", "pink", None, "pink"]), tally)
    assert made.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    missing, unknown = tally.notes()
    assert missing == "column 'colour': 1 missing, taken as none of the categories"
    assert unknown.startswith("column 'colour': 2 of a category that training never saw")


def test_imputed_values_are_counted_by_column():
    tally = Tally()
    ColumnEncoder(text="words").fit(TABLE).transform(TABLE, tally)
    assert tally.notes() == [
        "column 'colour': 1 missing, taken as none of the categories",
        "column 'size': 1 missing, filled with the median",
    ]


def test_a_row_alone_has_the_features_that_it_has_among_others():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": [*range(300)],
            "sharp": ["yes", "no", None] * 100,
            "colour": [1.0, 2.5, None] * 100,
            "town": random.choice([f"town {chr(97 + j)}" for j in range(12)], 300),
            "weight": [f"{value:,.2f} kg" for value in random.uniform(1, 9000, 300)],
            "when": pd.date_range("2019-11-03", periods=300).strftime("%d.%m.%Y"),
            "words": ["a red kite", "12 dogs", None] * 100,
        }
    )
    encoder = ColumnEncoder(text="words", categories=["colour"], max_categories=5).fit(frame)
    assert set(encoder.kinds_.values()) == {"number", "boolean", "category", "values", "measure", "date", "text"}
    mixed = frame.head(6).astype(object).assign(size=["7", 8, np.float32(9), None, 1.0, "2"], words=[12, 12.0, *"abcd"])
    mixed["weight"] = ["1,234.5 kg", 3.5, Decimal(4), None, "1.234 kg", "much"]
    mixed["when"] = ["03.11.2019", pd.Timestamp("2020-01-01"), datetime.date(2020, 1, 2), None, "2020-01-03", 7]
    alone = [encoder.transform(mixed.iloc[[row]].infer_objects()).toarray()[0] for row in range(6)]
    np.testing.assert_array_equal(encoder.transform(mixed).toarray(), alone)


def test_column_order_does_not_matter_and_other_columns_are_ignored():
    encoder = ColumnEncoder(text="words").fit(TABLE)
    shuffled = TABLE[TABLE.columns[::-1]].assign(more=7)
    assert (encoder.transform(shuffled) != encoder.transform(TABLE)).nnz == 0


def test_a_missing_column_is_named():
    encoder = ColumnEncoder(text="words").fit(TABLE)
    with pytest.raises(DataFileError, match="needs the column 'size', which the data lack"):
        encoder.transform(TABLE.drop(columns="size"))


@pytest.mark.parametrize("value", ["many", "1,5"])
def test_words_in_a_number_column_are_named(value):
    encoder = ColumnEncoder(text="words").fit(TABLE)
    match = rf"column 'count' must hold numbers as in training; got '{value}' \(row 3, counted from 1"
    with pytest.raises(DataFileError, match=match):
        encoder.transform(TABLE.assign(count=["1", "2", value, "4"]))


@pytest.mark.parametrize(
    ("trained", "then"),
    [
        ([1, 2, 4], [True, False, True]),
        ([1.5, 2, 4], [1.5, True, 2]),
        ([1, 2, 4], pd.to_datetime(["2020-01-01"] * 3)),
        ([1, 2, 4], [pd.Timestamp("2020-01-01")] * 3),
        ([1, 2, 4], pd.to_timedelta([1, 2, 3], unit="s")),
        (pd.to_timedelta([1, 2, 3], unit="s"), [1, 2, 4]),
        ([True, False, True], [1, 0, 7]),
    ],
)
def test_cells_of_a_type_that_training_did_not_see_are_an_error(trained, then):
    encoder = ColumnEncoder().fit(pd.DataFrame({"x": trained}))
    with pytest.raises(DataFileError, match=r"column 'x' must hold .* as in training; got"):
        encoder.transform(pd.DataFrame({"x": pd.Series(then, dtype=object if isinstance(then, list) else None)}))


def test_dots_that_may_mean_thousands_are_not_read_as_decimal_points(tmp_path):
    whole = ColumnEncoder().fit(pd.DataFrame({"price": [900, 5123, 7000]}))
    (tmp_path / "new.csv").write_text("price;x\n900;1\n5.123;2\n")
    with pytest.raises(DataFileError, match=r"got '5.123' \(row 2, counted from 1\). Write thousands without dots"):
        whole.transform(read_table(tmp_path / "new.csv").frame)
    # Where training saw decimal points, a dot is one.
    parts = ColumnEncoder().fit(pd.DataFrame({"price": [900.5, 5.123, 7.0]}))
    made = parts.transform(read_table(tmp_path / "new.csv").frame)
    np.testing.assert_array_equal(made, parts.transform(pd.DataFrame({"price": [900.0, 5.123]})))


@pytest.mark.parametrize("value", [np.inf, 1e39, -1e300])
def test_numbers_that_no_feature_can_hold_are_named(value):
    match = r"column 'size' must hold finite numbers of at most 3.4e\+38 in magnitude; got .* \(row 1, counted from 1\)"
    with pytest.raises(DataFileError, match=match):
        ColumnEncoder(text="words").fit(TABLE.assign(size=[value, 1, 2, 3]))
    encoder = ColumnEncoder(text="words").fit(TABLE)
    with pytest.raises(DataFileError, match=match):
        encoder.transform(TABLE.assign(size=[value, 1, 2, 3]))


def test_a_failed_fit_leaves_the_encoder_as_it_was():
    encoder = ColumnEncoder(text="words").fit(TABLE)
    before = encoder.transform(TABLE).toarray()
    with pytest.raises(DataFileError, match="holds no usable words"):
        encoder.fit(TABLE.drop(columns="size").assign(words="?", colour=["a", "b", "c", "c"]))
    assert "size" in encoder.kinds_
    assert np.array_equal(encoder.transform(TABLE).toarray(), before)


@pytest.mark.parametrize("said", [["yes", "no", "Yes", None], [True, False, None, True], ["1", "0", "", "true"]])
def test_booleans_may_be_written_differently_at_prediction(said):
    encoder = ColumnEncoder(drop=["size", "count", "colour", "words"]).fit(TABLE)
    made = encoder.transform(TABLE.assign(sharp=pd.Series(said, dtype=object)))
    assert made[:2].ravel().tolist() == [1.0, 0.0]


def test_numbers_named_as_categories_do_not_depend_on_gaps():
    table = pd.DataFrame({"code": [3, 7, 3], "x": [1.0, 2.0, 4.0]})
    encoder = ColumnEncoder(categories=["code"]).fit(table)
    with_gap = encoder.transform(table.assign(code=[3, None, 7]))
    assert with_gap[:, 1:].tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ([None] * 30, "empty"),
        ([1] * 30, "same in every row"),
        (["a"] * 30, "same in every row"),
        ([f"row {i}" for i in range(30)], "another value in every row"),
        (pd.Series(pd.date_range("2020", periods=30)).dt.to_period("D"), "period"),
        ([pd.Timestamp("2020-01-01")] * 30, "same in every row"),
        ([f"row {i // 2}" for i in range(30)], "15 different values, and few rows have one"),
        ([[1]] * 30, "list"),
    ],
)
def test_useless_columns_are_left_out_with_the_reason(column, reason):
    table = pd.DataFrame({"x": np.arange(30), "odd": column})
    encoder = ColumnEncoder(max_categories=10).fit(table)
    assert reason in encoder.left_out_["odd"]
    assert list(encoder.kinds_) == ["x"]


def test_an_index_that_was_written_with_the_table_is_left_out(tmp_path):
    table = pd.DataFrame({"x": np.arange(30), "y": np.arange(30)[::-1]}).sample(20, random_state=0)
    table.to_csv(tmp_path / "table.csv")
    encoder = ColumnEncoder().fit(read_table(tmp_path / "table.csv").frame)
    assert list(encoder.kinds_) == ["x", "y"]
    (reason,) = encoder.left_out_.values()
    assert "numbers the rows" in reason
    # A column without a name that says something stays.
    encoder = ColumnEncoder().fit(pd.DataFrame({"x": [1, 2, 4], "Unnamed: 0": [7, 7, 8]}))
    assert list(encoder.kinds_) == ["x", "Unnamed: 0"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": "nosuch"}, r"no column 'nosuch' \(named as text\)"),
        ({"drop": ["nosuch"]}, "named as drop"),
        ({"text": "words", "drop": ["words"]}, "named as text and as something else"),
        ({"drop": list(TABLE.columns)}, "no column is left to learn from"),
        ({"categories": ["count"], "max_categories": 2}, "has 4 categories"),
    ],
)
def test_bad_choices(settings, message):
    with pytest.raises(DataFileError, match=message):
        ColumnEncoder(**settings).fit(TABLE)


def test_a_text_column_without_words():
    with pytest.raises(DataFileError, match="text column 'words' holds no usable words"):
        ColumnEncoder(text="words").fit(TABLE.assign(words="!"))


def test_names_must_be_distinct():
    with pytest.raises(DataFileError, match="'size' come twice"):
        ColumnEncoder().fit(TABLE.set_axis(["size", "size", "c", "d", "e"], axis=1))


def test_sparse_columns_are_those_of_the_dense_table():
    frame = pd.DataFrame.sparse.from_spmatrix(random_csr((20, 30), 0.3), columns=[f"f{j}" for j in range(30)])
    dense = frame.sparse.to_dense()
    np.testing.assert_array_equal(
        ColumnEncoder().fit(frame).transform(frame), ColumnEncoder().fit(dense).transform(dense)
    )


def test_a_stored_encoder_gives_every_bit_back():
    encoder = ColumnEncoder(text="words").fit(TABLE)
    back = restored(encoder)
    assert (back.transform(TABLE) != encoder.transform(TABLE)).nnz == 0
    assert (back.kinds_, back.left_out_, back.n_features_) == (encoder.kinds_, encoder.left_out_, encoder.n_features_)

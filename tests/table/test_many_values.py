"""Columns of many words and of lists, against scikit-learn's encoders; and what is not such a column."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import OneHotEncoder, normalize

from onepos.exceptions import DataFileError
from onepos.table import ColumnEncoder, Tally
from onepos.table.features import LEAST_ROWS, find_bag

ROWS = 600


@pytest.fixture(scope="module")
def films():
    """Towns with a long tail, casts as lists, ratings, dates and lengths with units."""
    random = np.random.default_rng(0)
    towns = [f"town {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(150)]
    names = [f"actor {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]
    share = 1.0 / np.arange(1, 151)
    frame = pd.DataFrame(
        {
            "town": random.choice(towns, ROWS, p=share / share.sum()),
            "cast": [", ".join(random.choice(names, random.integers(1, 5), replace=False)) for _ in range(ROWS)],
            "rating": random.choice(["PG", "R"], ROWS),
            "length": [f"{minutes} min" for minutes in random.integers(20, 140, ROWS)],
            "added": [f"May {1 + i % 28}, {2000 + i % 20}" for i in range(ROWS)],
        }
    )
    frame.loc[[3, 8], "cast"] = None
    return frame


def test_the_kinds_of_columns(films):
    encoder = ColumnEncoder().fit(films)
    assert encoder.kinds_ == {"town": "values", "cast": "list", "rating": "category"}
    assert set(encoder.left_out_) == {"length", "added"}
    assert all("most with digits" in reason for reason in encoder.left_out_.values())


def test_frequent_words_are_those_of_scikit_learns_one_hot_encoder(films):
    """``min_frequency`` of OneHotEncoder also puts rare values into one column, the last one."""
    made = ColumnEncoder().fit(films[["town"]]).transform(films[["town"]]).toarray()
    expected = OneHotEncoder(min_frequency=LEAST_ROWS, sparse_output=False).fit_transform(films[["town"]])
    assert not made[:, -1].any()  # there are no gaps
    assert sorted(map(tuple, made[:, :-1].T)) == sorted(map(tuple, expected.T))
    np.testing.assert_array_equal(made[:, -2], expected[:, -1])


def test_lists_are_scikit_learns_bag_of_words_with_rows_of_length_one(films):
    column = films[["cast"]]
    made = ColumnEncoder().fit(column).transform(column).toarray()
    counts = CountVectorizer(tokenizer=lambda cell: cell.split(", "), token_pattern=None, lowercase=False, binary=True)
    words = counts.fit_transform(films["cast"].fillna("")).toarray()[:, :]
    names = counts.get_feature_names_out()
    words, names = words[:, names != ""], names[names != ""]
    frequent = words.sum(axis=0) >= LEAST_ROWS
    other = words[:, ~frequent].any(axis=1, keepdims=True)
    expected = normalize(np.hstack([words[:, frequent], other, films[["cast"]].isna().to_numpy()]).astype(float))
    assert sorted(map(tuple, made.T.round(5))) == sorted(map(tuple, expected.T.astype(np.float32).round(5)))
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1.0, rtol=1e-6)


def test_values_that_training_never_saw_are_other_ones_and_gaps_are_counted(films):
    encoder = ColumnEncoder().fit(films)
    tally = Tally()
    new = films.head(2).assign(town=["Atlantis", None], cast=["nobody, somebody", ""])
    made = encoder.transform(new, tally).toarray()
    n_town = len(encoder._bags["town"].values)
    town = made[:, 2 : 2 + n_town + 2]
    np.testing.assert_array_equal(town[0], np.eye(n_town + 2)[-2])
    np.testing.assert_array_equal(town[1], np.eye(n_town + 2)[-1])
    assert tally.missing == Counter({"town": 1, "cast": 1})
    assert "taken as a value of its own" in tally.notes(encoder.kinds_)[0]


def test_the_most_frequent_values_are_kept(films):
    found = find_bag(films["town"], 7)
    assert found is not None
    assert (
        found.values
        == films["town"]
        .value_counts()
        .rename_axis("t")
        .reset_index()
        .sort_values(["count", "t"], ascending=[False, True])["t"]
        .head(7)
        .tolist()
    )
    encoder = ColumnEncoder(max_values=7).fit(films)
    assert encoder.n_features_ == 2 + (7 + 2) + (7 + 2)
    assert set(ColumnEncoder(max_values=0).fit(films).kinds_) == {"rating"}


def test_measures_are_categories_if_somebody_says_so(films):
    encoder = ColumnEncoder(categories=["length"]).fit(films)
    assert encoder.kinds_["length"] == "values"
    assert encoder.transform(films).shape[1] == encoder.n_features_


def test_rare_categories_that_were_asked_for_are_named():
    frame = pd.DataFrame({"code": [f"c{i}" for i in range(300)], "x": range(300)})
    with pytest.raises(DataFileError, match="column 'code' has 300 categories, and few rows have one"):
        ColumnEncoder(categories=["code"]).fit(frame)
    assert "another value in every row" in ColumnEncoder().fit(frame).left_out_["code"]


def test_prose_is_no_list():
    random = np.random.default_rng(1)
    words = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(400)]
    prose = [", ".join(" ".join(random.choice(words, 6)) for _ in range(3)) for _ in range(300)]
    encoder = ColumnEncoder().fit(pd.DataFrame({"plot": prose, "x": range(300)}))
    assert "as text its words would be used" in encoder.left_out_["plot"]


def test_state_restores_every_bit(films):
    encoder = ColumnEncoder().fit(films)
    arrays, facts = encoder.state()
    back = ColumnEncoder.from_state(arrays, json.loads(json.dumps(facts)))
    assert (back.transform(films) != encoder.transform(films)).nnz == 0
    assert back.n_features_ == encoder.n_features_
    del facts["bags"]
    with pytest.raises(ValueError, match="not the columns it names"):
        ColumnEncoder.from_state(arrays, facts)


def test_indices_have_32_bits(films):
    made = ColumnEncoder(text="cast").fit(films).transform(films)
    assert made.indices.dtype == made.indptr.dtype == np.int32

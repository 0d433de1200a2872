"""Columns of many words and of lists, against scikit-learn's encoders; and what is not such a column."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.preprocessing import OneHotEncoder, normalize

from onepos.exceptions import DataFileError
from onepos.table import ColumnEncoder, Tally
from onepos.table.words import LEAST_ROWS, BagColumn
from stored_parts import restored

ROWS = 600


@pytest.fixture(scope="module")
def films():
    """Towns with a long tail, casts as lists, ratings, and codes that are neither dates nor numbers with units."""
    random = np.random.default_rng(0)
    towns = [f"town {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(150)]
    names = [f"actor {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]
    share = 1.0 / np.arange(1, 151)
    frame = pd.DataFrame(
        {
            "town": random.choice(towns, ROWS, p=share / share.sum()),
            "cast": [", ".join(random.choice(names, random.integers(1, 5), replace=False)) for _ in range(ROWS)],
            "rating": random.choice(["PG", "R"], ROWS),
            "shelf": [f"R{shelf}-{shelf % 7}" for shelf in random.integers(20, 140, ROWS)],
        }
    )
    frame.loc[[3, 8], "cast"] = None
    return frame


def test_the_kinds_of_columns(films):
    encoder = ColumnEncoder().fit(films)
    assert encoder.kinds_ == {"town": "values", "cast": "list", "rating": "category"}
    assert set(encoder.left_out_) == {"shelf"}
    assert "most have digits but are no dates or numbers with units" in encoder.left_out_["shelf"]


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
    n_town = len(encoder._columns[1].values)
    town = made[:, 2 : 2 + n_town + 2]
    np.testing.assert_array_equal(town[0], np.eye(n_town + 2)[-2])
    np.testing.assert_array_equal(town[1], np.eye(n_town + 2)[-1])
    gap = "1 missing, taken as a value of its own"
    assert tally.notes() == [f"column 'cast': {gap}", f"column 'town': {gap}"]


def test_the_most_frequent_values_are_kept(films):
    found = BagColumn.fit(films["town"], ColumnEncoder(max_values=7))
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
    assert encoder.n_features_ == 2 + (7 + 2) + (7 + 2 + 512)  # casts hold two names or more without a column
    assert set(ColumnEncoder(max_values=0).fit(films).kinds_) == {"rating"}


def test_values_without_a_column_are_hashed_as_scikit_learn_does_if_there_are_many(films):
    encoder = ColumnEncoder(max_values=7, drop=["town", "rating", "shelf"]).fit(films)
    kept = set(encoder._columns[0].values)
    rest = [" ".join(sorted({*cell.split(", ")} - kept)) for cell in films["cast"].fillna("")]
    ngrams = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 4), n_features=512, alternate_sign=False)
    made = encoder.transform(films).toarray()
    np.testing.assert_allclose(made[:, 9:], ngrams.transform(rest).toarray(), atol=1e-6)
    assert "the others share one and 512 of hashed character n-grams → 521 features" in encoder.describe()["cast"]
    back = restored(encoder)
    np.testing.assert_array_equal(back.transform(films).toarray(), made)


def test_codes_are_categories_if_somebody_says_so(films):
    encoder = ColumnEncoder(categories=["shelf"]).fit(films)
    assert encoder.kinds_["shelf"] == "values"
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
    table = pd.DataFrame({"plot": prose, "x": range(300)})
    encoder = ColumnEncoder().fit(table)
    assert encoder.kinds_["plot"] == "text"
    assert (encoder.transform(table) != ColumnEncoder(text="plot").fit(table).transform(table)).nnz == 0


def test_a_text_without_usable_words_is_left_out_unless_it_is_named():
    table = pd.DataFrame({"marks": [f"{a} {b} x y" for a in "abcdefgh" for b in "abcdefgh"], "x": range(64)})
    assert "marks" in ColumnEncoder().fit(table).left_out_
    with pytest.raises(DataFileError, match="no usable words"):
        ColumnEncoder(text="marks").fit(table)


def test_a_stored_encoder_gives_every_bit_back(films):
    encoder = ColumnEncoder().fit(films)
    back = restored(encoder)
    assert (back.transform(films) != encoder.transform(films)).nnz == 0
    assert back.n_features_ == encoder.n_features_


def test_thousands_of_names_are_bounded_and_the_line_says_so():
    random = np.random.default_rng(2)
    cells = [
        ", ".join(f"actor {name}" for name in "-".join(map(str, row)).split("-"))
        for row in random.integers(9_000, size=(4_000, 5))
    ]
    frame = pd.DataFrame({"cast": [cell.translate(str.maketrans("0123456789", "abcdefghij")) for cell in cells]})
    counts = Counter(name for cell in frame["cast"] for name in {*cell.split(", ")})
    encoder = ColumnEncoder(max_values=200).fit(frame)
    assert encoder.n_features_ == 202 + 512
    kept = encoder._columns[0].values
    assert len(kept) == 200
    assert min(counts[name] for name in kept) >= max(n for name, n in counts.items() if name not in kept)
    expected = f"lists of names between ',': 200 of {len(counts):,} values get a column, the others share one"
    assert encoder.describe()["cast"].startswith(expected)


def test_indices_have_32_bits(films):
    made = ColumnEncoder(text="cast").fit(films).transform(films)
    assert made.indices.dtype == made.indptr.dtype == np.int32

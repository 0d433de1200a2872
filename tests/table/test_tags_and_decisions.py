"""Tags to indicators and back; what reviewers decided; scores against the library's metrics."""

import numpy as np
import pandas as pd
import pytest

import onepos
from onepos.exceptions import DataFileError, LabelWarning
from onepos.metrics import average_precision, evaluate, single_positive_values
from onepos.table import ColumnEncoder, read_table
from onepos.table.evaluation import bootstrap_intervals, complete_values
from onepos.table.tags import apply_decisions, cells_of_tags, join_tags, joined_tags, row_ids, split_tags, tag_indicator
from onepos.table.words import CategoryColumn


def test_tags_are_stripped_sorted_and_may_be_missing():
    made = tag_indicator(pd.Series(["b", " a ", None, "", "b"]))
    assert list(made.columns) == ["a", "b"]
    assert made.to_numpy().tolist() == [[0, 1], [1, 0], [0, 0], [0, 0], [0, 1]]


def test_number_tags_with_a_gap_keep_their_names():
    assert list(tag_indicator(pd.Series([3, None, 12])).columns) == ["12", "3"]


@pytest.mark.parametrize(("tags", "message"), [([None, ""], "holds no tag"), (["a", "a"], "one label only, 'a'")])
def test_useless_tags(tags, message):
    with pytest.raises(DataFileError, match=message):
        tag_indicator(pd.Series(tags, name="tag", dtype=object))


def test_joined_sets_are_split_again():
    sets = pd.Series(["a;b", "c", "", "a ; c"])
    indicator = split_tags(sets)
    assert [";".join(sorted(text.split(";"))) for text in join_tags(indicator.astype(float))] == ["a;b", "c", "", "a;c"]


def test_top_counts_and_never_takes_what_is_known_absent():
    scores = pd.DataFrame([[0.1, 0.3, -1.0]], columns=list("abc"))
    assert join_tags(scores, top=3) == ["b;a"]
    assert join_tags(scores, threshold=0.2) == ["b"]
    assert join_tags(scores, threshold=[0.1, 0.4, 0.4]) == ["a"]
    assert join_tags(scores) == [""]
    assert join_tags(scores, at_least_one=True) == ["b"]
    with pytest.raises(DataFileError, match="holds the separator"):
        join_tags(scores, separator="a")


OBSERVED = pd.DataFrame([[1, 0, 0], [0, 1, 0]], columns=["a", "b", "c"])


def decided(*rows):
    return pd.DataFrame(rows, columns=["id", "label", "decision"])


def test_decisions_add_positives_and_negatives_and_overrule_tags():
    rows = [("x", "b", "accept"), ("y", "b", "reject"), ("y", "c", "accept"), ("z", "a", "accept")]
    made, counts = apply_decisions(OBSERVED, pd.Index(["x", "y"]), decided(*rows))
    assert made.to_numpy().tolist() == [[1, 1, 0], [0, -1, 1]]
    assert counts == {"accepted": 2, "rejected": 1, "complete": 0, "elsewhere": 1}
    assert OBSERVED.to_numpy().tolist() == [[1, 0, 0], [0, 1, 0]]


def test_a_complete_row_has_no_other_labels_wherever_the_mark_stands():
    rows = [("x", "", "complete"), ("x", "c", "accept"), ("y", "", "done"), ("z", "", "complete")]
    for order in (rows, rows[::-1]):
        made, counts = apply_decisions(OBSERVED, pd.Index(["x", "y"]), decided(*order))
        assert made.to_numpy().tolist() == [[1, -1, 1], [0, 1, 0]]
        assert counts == {"accepted": 1, "rejected": 0, "complete": 1, "elsewhere": 1}
    made, _ = apply_decisions(OBSERVED, pd.Index(["x", "y"]), decided(("x", "a", "reject"), ("x", None, "complete")))
    assert made.to_numpy().tolist() == [[-1, -1, -1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("x", "b", "maybe"), "decision 1: unknown decision 'maybe'; known: accept, reject, done, complete"),
        (("x", "d", "accept"), "decision 1: unknown label 'd'; known: a, b, c"),
        (("q", "b", "accept"), "no decision is about a row of the table"),
    ],
)
def test_bad_decisions(row, message):
    with pytest.raises(DataFileError, match=message):
        apply_decisions(OBSERVED, pd.Index(["x", "y"]), decided(row))


def test_row_ids():
    frame = pd.DataFrame({"id": [7, 8], "same": ["s", "s"], "gap": ["s", None]})
    assert row_ids(frame, "id").tolist() == ["7", "8"]
    assert row_ids(frame, None).tolist() == ["1", "2"]
    with pytest.raises(DataFileError, match="'s' comes twice"):
        row_ids(frame, "same")
    with pytest.raises(DataFileError, match="empty in row 2, counted from 1"):
        row_ids(frame, "gap")


@pytest.fixture
def ranked():
    random = np.random.default_rng(0)
    truth = (random.random((200, 6)) < 0.3).astype(int)
    return truth, random.integers(0, 5, (200, 6)) / 5  # with ties


def test_row_values_average_to_the_metrics(ranked):
    truth, scores = ranked
    expected = evaluate(truth, scores)
    for name, values in complete_values(truth, scores).items():
        assert np.nanmean(values) == pytest.approx(expected[name], abs=1e-12)


def test_reciprocal_rank_is_the_average_precision_of_single_positives(ranked):
    _, scores = ranked
    observed = np.eye(6)[np.random.default_rng(1).integers(0, 6, 200)]
    observed[:10] = 0
    values = single_positive_values(observed, scores)
    assert np.nanmean(values["reciprocal_rank"]) == pytest.approx(average_precision(observed, scores))
    assert np.nanmean(values["recall_at_5"]) >= np.nanmean(values["recall_at_1"])


def test_bootstrap_interval_is_about_the_normal_one():
    values = np.random.default_rng(0).normal(3.0, 1.0, 400)
    found = bootstrap_intervals({"x": values})["x"]
    error = 1.96 * values.std() / 20
    assert found["mean"] == pytest.approx(values.mean())
    assert found["low"] == pytest.approx(values.mean() - error, abs=0.02)
    assert found["high"] == pytest.approx(values.mean() + error, abs=0.02)


#: One tag, written in ways that look the same: composed, decomposed, with invisible characters, with blanks.
CAFE = ["caf\xe9", "cafe\u0301", "caf\xe9\u200b", "\ufeffcaf\xe9", "ca\u00adf\xe9", "c\u200daf\xe9", "\u00a0caf\xe9 "]


def test_tags_that_look_the_same_are_one_label_and_a_warning_says_so():
    with pytest.warns(LabelWarning, match=r"1 of 2 labels come in several spellings .*'caf\\xe9' = 'cafe\\u0301'"):
        made = tag_indicator(pd.Series([*CAFE, "sea"]))
    assert made.columns.tolist() == ["caf\xe9", "sea"]
    assert made.to_numpy().tolist() == [[1, 0]] * len(CAFE) + [[0, 1]]
    with pytest.warns(LabelWarning, match="several spellings"):
        direct = onepos.one_positive([*CAFE, "sea"])
    assert direct.columns.tolist() == ["caf\xe9", "sea"]
    assert np.array_equal(direct, made)


@pytest.mark.parametrize("written", CAFE)
def test_every_spelling_finds_its_label_again(written):
    for classes in (["caf\xe9", "sea"], ["cafe\u0301", "sea"]):
        assert split_tags(pd.Series([f"{written}; sea"]), ";", classes).to_numpy().tolist() == [[1, 1]]
        assert onepos.one_positive([written, "sea"], classes=classes).columns.tolist() == classes
    observed = pd.DataFrame({"caf\xe9": [0], "sea": [1]})
    decided = pd.DataFrame({"id": ["a"], "label": [written], "decision": ["accept"]})
    assert apply_decisions(observed, pd.Index(["a"]), decided)[0].to_numpy().tolist() == [[1, 1]]


def test_characters_that_join_letters_or_emoji_stay():
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert split_tags(pd.Series([family, persian])).columns.tolist() == sorted([family, persian])


def test_blanks_around_tags_of_a_table_are_no_news():
    assert tag_indicator(pd.Series(["sea", " sea", "city "])).columns.tolist() == ["city", "sea"]


@pytest.mark.parametrize("source", ["frame", "nullable", "objects", "csv", "parquet", "float32"])
def test_whole_numbers_are_written_alike_at_any_size_with_gaps(source, tmp_path):
    """A gap turns integers into floating point; the names must not follow the type."""
    numbers = [7, 123456, 1234567, -1234567, 10**12, 2**53, None]
    if source == "float32":
        numbers = [7, 123456, 1234567, -1234567, None]
    frame = pd.DataFrame({"code": pd.Series(numbers, dtype="Int64"), "tag": "x"})
    if source in ("frame", "float32"):
        frame["code"] = frame["code"].astype("float32" if source == "float32" else "float64")
    elif source == "objects":
        frame["code"] = pd.Series([None if n is None else float(n) for n in numbers], dtype=object)
    elif source == "csv":
        frame.to_csv(tmp_path / "a.csv", index=False)
        frame = read_table(tmp_path / "a.csv", plain=["code"]).frame
        assert row_ids(pd.read_csv(tmp_path / "a.csv").iloc[:-1], "code").tolist() == [str(n) for n in numbers[:-1]]
    elif source == "parquet":
        frame.astype({"code": "float64"}).to_parquet(tmp_path / "a.parquet")
        frame = read_table(tmp_path / "a.parquet").frame
    names = [str(n) for n in numbers[:-1]]
    assert tag_indicator(frame["code"]).columns.tolist() == sorted(names)
    assert row_ids(frame.iloc[:-1], "code").tolist() == names
    assert CategoryColumn.fit(frame["code"], ColumnEncoder()).values == sorted(names)


def test_fractions_and_text_stay_as_they_are_written():
    assert tag_indicator(pd.Series([2.5, 1234567.25, 3.0])).columns.tolist() == ["1234567.25", "2.5", "3"]
    assert tag_indicator(pd.Series(["07", "3.0", "7"])).columns.tolist() == ["07", "3.0", "7"]


def test_cells_are_split_at_the_separator_only():
    cells = pd.Series(["sea,city, ", None, "sea, city"])
    assert cells_of_tags(cells, ", ") == [["sea", "city"], [], ["sea", "city"]]
    assert cells_of_tags(cells[1:], None) == [[], ["sea, city"]]


def test_a_sign_that_joins_tags_is_found():
    assert joined_tags(["sea;city", "sea", "city", "snow"]) == (";", 1)
    assert joined_tags(["Smith, John", "Miller, Ann"]) is None

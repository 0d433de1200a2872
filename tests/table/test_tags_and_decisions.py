"""Tags to indicators and back; what reviewers decided; scores against the library's metrics."""

import numpy as np
import pandas as pd
import pytest

from onepos.exceptions import DataFileError
from onepos.metrics import average_precision, evaluate
from onepos.table import (
    apply_decisions,
    bootstrap_intervals,
    complete_values,
    join_tags,
    row_ids,
    single_positive_values,
    split_tags,
    tag_indicator,
)


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
    assert counts == {"accepted": 2, "rejected": 1, "elsewhere": 1}
    assert OBSERVED.to_numpy().tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("x", "b", "maybe"), "accept or reject; got 'maybe'"),
        (("x", "d", "accept"), "must name labels of the table; got 'd'"),
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
    with pytest.raises(DataFileError, match="empty in row 1"):
        row_ids(frame, "gap")


@pytest.fixture
def ranked():
    random = np.random.default_rng(0)
    truth = (random.random((200, 6)) < 0.3).astype(int)
    return truth, random.integers(0, 5, (200, 6)) / 5  # with ties


def test_row_values_average_to_the_metrics(ranked):
    truth, scores = ranked
    values = complete_values(truth, scores)
    for name, expected in evaluate(truth, scores).items():
        assert np.nanmean(values[name]) == pytest.approx(expected, abs=1e-12)


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

"""Both selection rules side by side."""

import pandas as pd
import pytest

from onepos_studies.study.tables import selection_table
from table_frames import make_frame

CLEAN = {("a", "x"): [0.80, 0.82], ("b", "x"): [0.60, 0.60], ("a", "y"): [0.5, 0.5]}
SINGLE = {("a", "x"): [0.79, 0.81], ("b", "x"): [0.54, 0.60], ("b", "y"): [0.4, None]}


def both():
    return pd.concat(
        [make_frame(CLEAN, selection="clean"), make_frame(SINGLE, selection="single-positive")], ignore_index=True
    )


def test_hand_worked():
    grid = selection_table(both())
    assert [[cell.text + cell.mark for cell in row] for row in grid.rows] == [
        ["a", "x", ".810±.014", ".800±.014", "-.010"],
        ["a", "y", ".500±.000", "–", "–"],
        ["b", "x", ".600±.000", ".570±.042", "-.030"],
        ["b", "y", "–", ".400†1", "–"],
        ["mean", "x", "", "", "-.020"],
    ]
    assert any("†n" in note for note in grid.notes)


def test_it_is_what_pandas_says(random_results):
    data = selection_table(random_results, "coverage").data.set_index(["method", "dataset"])
    means = random_results.groupby(["selection", "method", "dataset"])["coverage"].mean()
    expected = means["single-positive"] - means["clean"]
    for name, column in (("difference", expected), ("clean_mean", means["clean"])):
        pd.testing.assert_series_equal(data[name].sort_index(), column.sort_index(), check_names=False)


def test_a_rule_with_fewer_trials_is_not_complete():
    frame = pd.concat(
        [make_frame({("a", "x"): [0.8, 0.9]}), make_frame({("a", "x"): [0.7]}, selection="single-positive")]
    )
    grid = selection_table(frame)
    assert len(grid.rows) == 1
    assert grid.rows[0][3].mark == "†1"


def test_both_rules_are_needed():
    with pytest.raises(ValueError, match="expected rows with selection 'single-positive'"):
        selection_table(make_frame(CLEAN))

"""The main table: what is bold, what is marked, what is ranked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepos.metrics import METRICS
from onepos_studies.study.tables import main_table
from table_frames import make_frame

TWO = {
    ("a", "smile"): [0.80, 0.82],
    ("a", "an"): [0.81, 0.81],
    ("a", "wan"): [0.70, 0.72],
    ("a", "bce"): [0.95, 0.95],
    ("b", "smile"): [0.50, 0.52],
    ("b", "an"): [0.60, None],
    ("b", "wan"): [0.51, 0.50],
    ("b", "bce"): [0.70, 0.72],
}


def bold(table, dataset):
    return [method for method in table.methods if table.cells[dataset, method].best]


def test_best_ties_full_supervision_and_incomplete_cells():
    table = main_table(make_frame(TWO), "average_precision")
    assert bold(table, "a") == ["smile", "an"]  # .810 both: equal at the shown digits
    assert bold(table, "b") == ["smile"]  # .600 of one trial does not compete, nor does bce
    assert not table.cells["b", "an"].complete
    assert table.failed == 1
    assert main_table(make_frame(TWO), "coverage").cells["a", "wan"].best  # lower is better


def test_equal_is_what_is_shown():
    values = {("a", "w"): [0.1242], ("a", "x"): [0.1234], ("a", "y"): [0.1229], ("a", "z"): [0.1236]}
    assert bold(main_table(make_frame(values), "average_precision"), "a") == ["w", "z"]


def test_ranks_are_over_data_sets_that_all_have_completed():
    table = main_table(make_frame(TWO), "average_precision")
    assert table.ranked_datasets == ("a",)
    assert table.average_ranks == {"smile": 1.5, "an": 1.5, "wan": 3.0}
    table = main_table(make_frame(TWO), "average_precision", methods=["wan", "smile"])
    assert table.ranked_datasets == ("a", "b")
    assert table.average_ranks == {"wan": 2.0, "smile": 1.0}


def test_the_grid_says_it_all():
    values = TWO | {("c-hue", "smile"): [0.1, 0.2]}
    grid = main_table(make_frame(values), "average_precision").grid().named({"smile": "SMILE"})
    assert grid.title == "Average precision ↑"
    assert grid.header == ("data set", "SMILE", "an", "wan", "bce")
    assert [cell.text for cell in grid.rows[0]] == ["a", ".810±.014", ".810±.000", ".710±.014", ".950±.000"]
    assert (grid.rows[1][2].text, grid.rows[1][2].mark) == (".600", "†1")
    assert [cell.text for cell in grid.rows[2]] == ["c-hue", ".150±.071", "–", "–", "–"]
    assert [cell.text for cell in grid.rows[-1]] == ["average rank", "1.50", "1.50", "3.00", "–"]
    assert [cell.bold for cell in grid.rows[-1]] == [False, True, True, False, False]
    notes = " ".join(grid.notes)
    assert "†n: only n of 2" in notes
    assert "left out: 1" in notes
    assert "Not the paper's features: c-hue" in notes
    assert "1 of 3 data sets" in notes


def test_expected_trials_can_be_said():
    table = main_table(make_frame(TWO), "coverage", expected_trials=5)
    assert all(not cell.complete and not cell.best for cell in table.cells.values())
    assert table.average_ranks == {}
    assert {cell.text for cell in table.grid().rows[-1][1:]} == {"–"}


def test_nothing_competes():
    table = main_table(make_frame({("a", "bce"): [0.5, 0.6], ("a", "forest-full"): [0.5, 0.7]}), "coverage")
    assert not any(cell.best for cell in table.cells.values())
    assert table.average_ranks == {}


@pytest.mark.parametrize("metric", METRICS)
def test_bold_is_the_extreme_of_the_competing_means(random_results, metric):
    table = main_table(random_results, metric)
    for dataset in table.datasets:
        means = {m: table.cells[dataset, m].mean for m in table.methods if m != "bce"}
        best = (max if metric == "average_precision" else min)(means, key=means.get)
        assert best in bold(table, dataset)


@given(st.permutations(("a", "b")), st.sampled_from((0.25, 0.5, 2.0)))
def test_order_and_scale_do_not_change_ranks(order, factor):
    scaled = {key: [None if v is None else v * factor for v in values] for key, values in TWO.items()}
    table = main_table(make_frame(scaled), "average_precision", datasets=order)
    assert table.average_ranks == {"smile": 1.5, "an": 1.5, "wan": 3.0}

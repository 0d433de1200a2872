"""Means, spreads and counts against pandas and by hand; what a results frame must be."""

import numpy as np
import pandas as pd
import pytest

from onepos.metrics import METRICS
from onepos_studies.study.tables import main_table
from table_frames import DATASETS, METHODS, make_frame


def wide(table, name):
    """Data sets down, methods across."""
    values = [[getattr(table.cells[dataset, method], name) for method in table.methods] for dataset in table.datasets]
    return pd.DataFrame(values, index=table.datasets, columns=table.methods)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("selection", ["clean", "single-positive"])
def test_it_is_what_pandas_says(random_results, metric, selection):
    table = main_table(random_results, metric, selection=selection)
    pivot = random_results[random_results["selection"] == selection].pivot_table(
        index="dataset", columns="method", values=metric, aggfunc=["mean", "std", "count"], sort=False
    )
    for name in ("mean", "std", "count"):
        pd.testing.assert_frame_equal(wide(table, name), pivot[name], check_names=False, check_dtype=False)
    assert all(cell.complete for cell in table.cells.values())


def test_hand_worked_with_a_failed_trial():
    table = main_table(make_frame({("a", "x"): [0.1, 0.3, None], ("a", "y"): [0.5, 0.5, 0.5]}), "coverage")
    cell = table.cells["a", "x"]
    assert (cell.mean, cell.count, cell.complete) == (pytest.approx(0.2), 2, False)
    assert cell.std == pytest.approx(np.sqrt(0.02))  # (0.1² + 0.1²) / (2 - 1)
    assert table.failed == 1
    assert table.cells["a", "y"].complete
    assert table.expected_trials == 3


def test_a_cell_without_rows_and_one_trial():
    table = main_table(make_frame({("a", "x"): [0.1], ("b", "y"): [None]}), "coverage")
    assert np.isnan(table.cells["a", "y"].mean)
    assert [table.cells[name, "y"].count for name in ("a", "b")] == [0, 0]
    assert np.isnan(table.cells["a", "x"].std)


def test_order_is_of_first_appearance_or_as_given(random_results):
    assert main_table(random_results, "coverage").datasets == DATASETS
    assert main_table(random_results, "coverage").methods == METHODS
    table = main_table(random_results, "coverage", datasets=["yeast", "later", "CAL500"], methods=["bce", "smile"])
    assert table.datasets == ("yeast", "later", "CAL500")
    assert table.methods == ("bce", "smile")
    assert wide(table, "count").loc["later"].tolist() == [0, 0]


def test_order_of_rows_does_not_matter(random_results):
    shuffled = random_results.sample(frac=1, random_state=1)
    ours = main_table(random_results, "one_error")
    theirs = main_table(shuffled, "one_error", datasets=ours.datasets, methods=ours.methods)
    for name in ("mean", "std"):
        pd.testing.assert_frame_equal(wide(ours, name), wide(theirs, name))


def test_all_failed_is_an_empty_table():
    table = main_table(make_frame({("a", "x"): [None, None]}), "coverage")
    assert (table.cells["a", "x"].count, table.failed) == (0, 2)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda f: f.drop(columns="trial"), "trial missing"),
        (lambda f: f.assign(status="done"), "status among ok, failed; got 'done'"),
        (lambda f: f.assign(selection="dirty"), "selection among"),
        (lambda f: f.assign(features="other"), "features among"),
        (lambda f: pd.concat([f, f]), "one row per cell"),
        (lambda f: f.assign(coverage=np.nan), "finite coverage"),
        (lambda f: f.assign(coverage=np.inf), "finite coverage"),
        (lambda f: f.assign(selection="single-positive"), "expected rows with selection 'clean'"),
        (lambda f: f.iloc[:0], "the frame is empty"),
    ],
)
def test_a_wrong_frame_is_refused(change, match):
    with pytest.raises(ValueError, match=match):
        main_table(change(make_frame({("a", "x"): [0.1, 0.2]})), "coverage")


def test_wrong_names_are_refused(random_results):
    with pytest.raises(ValueError, match="expected a metric among"):
        main_table(random_results, "accuracy")
    with pytest.raises(ValueError, match="expected methods among smile"):
        main_table(random_results, "coverage", methods=["simle"])

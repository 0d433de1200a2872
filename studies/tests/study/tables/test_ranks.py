"""Average ranks with Friedman and Nemenyi, from a results frame."""

import pytest
from scipy import stats

from onepos.metrics import METRICS
from onepos_studies.study.statistics import critical_difference
from onepos_studies.study.tables import metric_ranks, rank_table
from table_frames import make_frame


@pytest.mark.parametrize("metric", METRICS)
def test_ranks_and_test_are_pandas_and_scipys(random_results, metric):
    ranks = metric_ranks(random_results, metric)
    clean = random_results[random_results["selection"] == "clean"]
    means = clean.groupby(["dataset", "method"])[metric].mean().unstack()[["smile", "an", "wan"]]
    expected = means.rank(axis=1, ascending=metric != "average_precision").mean()
    assert ranks.average_ranks == pytest.approx(expected.to_dict())
    assert ranks.friedman.chi_square == pytest.approx(stats.friedmanchisquare(*means.to_numpy().T).statistic)
    assert ranks.critical_difference == critical_difference(3, 7)
    assert len(ranks.datasets) == 7


def test_hand_worked():
    """Twelve data sets in one order: the critical difference of four methods is 1.35."""
    order = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}
    frame = make_frame({(f"set{i}", m): [v, v] for i in range(12) for m, v in order.items()})
    grid = rank_table(frame, metrics=["average_precision"])
    row = ["Average precision ↑", "1.00", "2.00", "3.00", "4.00", "12", "36.00 [<0.0001]", "∞ [<0.0001]", "1.35"]
    assert [cell.text for cell in grid.rows[0]] == row
    assert grid.data["average_rank"].tolist() == [1, 2, 3, 4]
    assert set(grid.data["datasets"]) == {12}


def test_a_hole_costs_a_data_set_and_too_few_are_not_ranked():
    values = {(d, m): [0.1, 0.2] for d in ("a", "b") for m in ("x", "y")}
    assert metric_ranks(make_frame(values), "coverage").average_ranks == {"x": 1.5, "y": 1.5}
    holed = make_frame(values | {("a", "x"): [0.1, None]})
    assert metric_ranks(holed, "coverage") is None
    grid = rank_table(holed)
    assert {cell.text for cell in grid.rows[0][1:]} == {"–"}
    assert "choose fewer methods" in grid.notes[-1]
    assert grid.data.empty


def test_methods_can_be_chosen(random_results):
    assert tuple(metric_ranks(random_results, "coverage", methods=["bce", "an"]).average_ranks) == ("bce", "an")

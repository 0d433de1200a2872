"""Average ranks with Friedman and Nemenyi, from a results frame."""

import pytest
from scipy import stats

from onepos.metrics import METRICS
from onepos_studies.study.statistics import critical_difference
from onepos_studies.study.tables import rank_table
from table_frames import make_frame


@pytest.mark.parametrize("metric", METRICS)
def test_ranks_and_test_are_pandas_and_scipys(random_results, metric):
    table = rank_table(random_results)
    clean = random_results[random_results["selection"] == "clean"]
    means = clean.groupby(["dataset", "method"])[metric].mean().unstack()[list(table.methods)]
    expected = means.rank(axis=1, ascending=metric != "average_precision").mean()
    ranks = table.ranks[metric]
    assert table.methods == ("smile", "an", "wan")
    assert ranks.average_ranks == pytest.approx(expected.to_dict())
    assert ranks.friedman.chi_square == pytest.approx(stats.friedmanchisquare(*means.to_numpy().T).statistic)
    assert ranks.critical_difference == critical_difference(3, 7)
    assert len(ranks.datasets) == 7


def test_cliques_are_methods_by_name():
    """Twelve data sets in one order: neighbours among four do not differ (CD 1.35), the ends do."""
    order = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}
    frame = make_frame({(f"set{i}", m): [v, v] for i in range(12) for m, v in order.items()})
    table = rank_table(frame, metrics=["average_precision", "coverage"])
    assert table.ranks["average_precision"].cliques == (("a", "b"), ("b", "c"), ("c", "d"))
    assert table.ranks["coverage"].cliques == (("d", "c"), ("c", "b"), ("b", "a"))
    row = [cell.text for cell in table.grid().rows[0]]
    assert row == [
        "Average precision ↑",
        "1.00",
        "2.00",
        "3.00",
        "4.00",
        "12",
        "36.00 [<0.0001]",
        "∞ [<0.0001]",
        "1.35",
    ]


def test_a_hole_costs_a_data_set_and_too_few_are_not_ranked():
    values = {(d, m): [0.1, 0.2] for d in ("a", "b") for m in ("x", "y")}
    full = rank_table(make_frame(values))
    assert full.ranks["coverage"].average_ranks == {"x": 1.5, "y": 1.5}
    holed = rank_table(make_frame(values | {("a", "x"): [0.1, None]}))
    assert set(holed.ranks.values()) == {None}
    assert {cell.text for cell in holed.grid().rows[0][1:]} == {"–"}
    assert "choose fewer methods" in holed.grid().notes[-1]
    assert holed.frame()["average_rank"].isna().all()
    assert len(holed.frame()) == len(full.frame()) == 10


def test_methods_can_be_chosen(random_results):
    table = rank_table(random_results, methods=["bce", "an"], metrics=["coverage"])
    assert tuple(table.ranks["coverage"].average_ranks) == ("bce", "an")

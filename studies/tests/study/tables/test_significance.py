"""Table 3 in form; on the paper's own means its outcomes come back."""

import numpy as np
import pytest

from onepos.metrics import METRICS, higher_is_better
from onepos_studies.study.statistics import holm, signed_rank
from onepos_studies.study.tables import significance
from table_frames import make_frame

SIX = [f"set{i}" for i in range(6)]


def results(gaps):
    """Six data sets; each rival is this much below smile, times 1 to 6."""
    values = {}
    for number, dataset in enumerate(SIX, start=1):
        values[dataset, "smile"] = [0.5, 0.5]
        for rival, gap in gaps.items():
            values[dataset, rival] = [0.5 - gap * number] * 2
    return make_frame(values)


def by_pair(grid):
    return grid.data.set_index(["metric", "rival"])


def test_the_papers_table_3(paper_results):
    rivals = ("an", "an-ls", "wan", "role", "glocal", "mlml", "d2ml")
    grid = significance(paper_results, rivals=rivals)
    outcomes = by_pair(grid)["outcome"]
    assert set(outcomes.index[outcomes != "win"]) == {("ranking_loss", "wan"), ("coverage", "wan")}
    assert set(outcomes) == {"win", "tie"}
    first = grid.rows[0]
    assert [cell.text for cell in first[:3]] == ["Average precision ↑", "win[0.0005]", "win[0.0005]"]
    assert all(cell.bold for cell in first[1:])


def test_the_papers_ablation(paper_results):
    grid = significance(paper_results, rivals=("smile-si",))
    assert set(grid.data["outcome"]) == {"win"}
    assert grid.header == ("against", "smile-si")
    assert len(grid.rows) == len(METRICS)  # one rival: nothing to correct, no line for it


def test_hand_worked_with_holm():
    """Two wins at 2⁻⁵ of three tests: three times that is no win any more."""
    grid = significance(results({"an": 0.01, "wan": 0.02, "role": 0.0}), metrics=["average_precision"])
    assert grid.data["holm_p_value"].tolist() == [0.09375, 0.09375, 1.0]
    assert set(grid.data["holm_outcome"]) == {"tie"}
    assert [[cell.text for cell in row] for row in grid.rows] == [
        ["Average precision ↑", "win[0.0312]", "win[0.0312]", "tie[1.0000]"],
        ["Holm-corrected", "tie[0.0938]", "tie[0.0938]", "tie[1.0000]"],
    ]


@pytest.mark.parametrize("metric", METRICS)
def test_it_is_the_test_of_the_pandas_means(random_results, metric):
    data = significance(random_results, method="an", metrics=[metric]).data.set_index("rival")
    clean = random_results[random_results["selection"] == "clean"]
    means = clean.groupby(["dataset", "method"])[metric].mean().unstack()
    assert list(data.index) == ["smile", "wan"]  # full supervision is no rival unless asked for
    sign = 1 if higher_is_better(metric) else -1
    expected = [signed_rank(sign * (means["an"] - means[rival])).p_value for rival in data.index]
    assert data["p_value"].tolist() == expected
    np.testing.assert_allclose(data["holm_p_value"].astype(float), holm(expected))


def test_losses_turn_with_the_metric_and_with_the_roles():
    frame = results({"an": 0.01})
    assert by_pair(significance(frame)).loc[("average_precision", "an"), "outcome"] == "win"
    assert by_pair(significance(frame)).loc[("coverage", "an"), "outcome"] == "loss"
    swapped = significance(frame, method="an", rivals=["smile"])
    assert by_pair(swapped).loc[("average_precision", "smile"), "outcome"] == "loss"


def test_incomplete_cells_are_no_pairs_and_too_few_are_not_tested():
    frame = results({"an": 0.01, "wan": 0.02})
    failed = (frame["dataset"] == "set0") & (frame["method"] == "an") & (frame["trial"] == 1)
    frame.loc[failed, "status"] = "failed"
    frame.loc[failed, list(METRICS)] = np.nan
    grid = significance(frame)
    short = by_pair(grid).loc[("coverage", "an")]
    assert (short["datasets"], short["outcome"], short["holm_outcome"]) == (5, None, None)
    # The test that was not made does not count in the correction.
    other = by_pair(grid).loc[("coverage", "wan")]
    assert other["holm_p_value"] == other["p_value"]
    assert grid.rows[0][1].text == "–"
    assert any("below 6 data sets" in note for note in grid.notes)
    assert any("n = 5 to 6" in note for note in grid.notes)


@pytest.mark.parametrize(
    ("method", "rivals"), [("simle", None), ("smile", ["nobody"]), ("smile", []), ("smile", ["smile"])]
)
def test_wrong_names_are_refused(method, rivals):
    with pytest.raises(ValueError, match="name methods that have results"):
        significance(results({"an": 0.01}), method=method, rivals=rivals)

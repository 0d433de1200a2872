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


def test_the_papers_table_3(paper_results):
    rivals = ("an", "an-ls", "wan", "role", "glocal", "mlml", "d2ml")
    table = significance(paper_results, rivals=rivals)
    outcomes = {pair: verdict.test.outcome for pair, verdict in table.verdicts.items()}
    assert {pair for pair, outcome in outcomes.items() if outcome != "win"} == {
        ("ranking_loss", "wan"),
        ("coverage", "wan"),
    }
    assert set(outcomes.values()) == {"win", "tie"}
    first = table.grid().rows[0]
    assert [cell.text for cell in first[:3]] == ["Average precision ↑", "win[0.0005]", "win[0.0005]"]
    assert all(cell.bold for cell in first[1:])


def test_the_papers_ablation(paper_results):
    table = significance(paper_results, rivals=("smile-si",))
    assert all(verdict.test.outcome == "win" for verdict in table.verdicts.values())
    grid = table.grid({"smile": "SMILE", "smile-si": "SMILE-SI"})
    assert grid.header == ("SMILE against", "SMILE-SI")
    assert len(grid.rows) == len(METRICS)  # one rival: nothing to correct, no line for it


def test_hand_worked_with_holm():
    """Two wins at 2⁻⁵ of three tests: three times that is no win any more."""
    table = significance(results({"an": 0.01, "wan": 0.02, "role": 0.0}), metrics=["average_precision"])
    verdicts = {rival: table.verdicts["average_precision", rival] for rival in table.rivals}
    assert [v.test.outcome for v in verdicts.values()] == ["win", "win", "tie"]
    assert [v.corrected_p for v in verdicts.values()] == [0.09375, 0.09375, 1.0]
    assert [v.corrected_outcome for v in verdicts.values()] == ["tie", "tie", "tie"]
    rows = [[cell.text for cell in row] for row in table.grid().rows]
    assert rows == [
        ["Average precision ↑", "win[0.0312]", "win[0.0312]", "tie[1.0000]"],
        ["Holm-corrected", "tie[0.0938]", "tie[0.0938]", "tie[1.0000]"],
    ]


@pytest.mark.parametrize("metric", METRICS)
def test_it_is_the_test_of_the_pandas_means(random_results, metric):
    table = significance(random_results, method="an", metrics=[metric])
    clean = random_results[random_results["selection"] == "clean"]
    means = clean.groupby(["dataset", "method"])[metric].mean().unstack()
    assert table.rivals == ("smile", "wan")  # full supervision is no rival unless asked for
    expected = [signed_rank(means["an"], means[r], higher_is_better=higher_is_better(metric)) for r in table.rivals]
    assert [table.verdicts[metric, r].test.p_value for r in table.rivals] == [test.p_value for test in expected]
    corrected = [table.verdicts[metric, r].corrected_p for r in table.rivals]
    np.testing.assert_allclose(corrected, holm([test.p_value for test in expected]))


def test_losses_turn_with_the_metric_and_with_the_roles():
    frame = results({"an": 0.01})
    assert significance(frame).verdicts["average_precision", "an"].test.outcome == "win"
    assert significance(frame).verdicts["coverage", "an"].test.outcome == "loss"
    swapped = significance(frame, method="an", rivals=["smile"])
    assert swapped.verdicts["average_precision", "smile"].test.outcome == "loss"


def test_incomplete_cells_are_no_pairs_and_too_few_are_not_tested():
    frame = results({"an": 0.01, "wan": 0.02})
    failed = (frame["dataset"] == "set0") & (frame["method"] == "an") & (frame["trial"] == 1)
    frame.loc[failed, "status"] = "failed"
    frame.loc[failed, list(METRICS)] = np.nan
    table = significance(frame)
    short = table.verdicts["coverage", "an"]
    assert (len(short.datasets), short.test, short.corrected_outcome) == (5, None, None)
    # The test that was not made does not count in the correction.
    assert table.verdicts["coverage", "wan"].corrected_p == table.verdicts["coverage", "wan"].test.p_value
    assert table.grid().rows[0][1].text == "–"
    assert any("below 6 data sets" in note for note in table.grid().notes)
    assert any("n = 5 to 6" in note for note in table.grid().notes)
    record = table.frame().set_index(["metric", "rival"]).loc[("coverage", "an")]
    assert record["datasets"] == 5
    assert record.isna()[["outcome", "p_value", "pairs"]].all()


@pytest.mark.parametrize(
    ("method", "rivals"), [("simle", None), ("smile", ["nobody"]), ("smile", []), ("smile", ["smile"])]
)
def test_wrong_names_are_refused(method, rivals):
    with pytest.raises(ValueError, match="name methods that have results"):
        significance(results({"an": 0.01}), method=method, rivals=rivals)

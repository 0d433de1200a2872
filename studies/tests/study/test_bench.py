"""`onepos bench` on the results of `smoke`: tables, comparison, status, export, and the report in a real browser."""

import io
import json

import pandas as pd
import pytest

from onepos.metrics import METRICS
from onepos_studies.study import cells_of, load_results, read_study
from onepos_studies.study.runner import outcome


def test_status_counts_what_there_is(run, smoke_results):
    code, out, _ = run("bench", "status", smoke_results, "--json")
    total = len(cells_of(read_study("smoke")[0]))
    assert code == 0
    assert json.loads(out) == {"done": total, "total": total, "failed": [], "running": [], "rows_of_other_revisions": 0}
    code, out, _ = run("bench", "status", smoke_results)
    assert f"{total} of {total} cells done, 0 failed" in out


def test_a_line_per_cell_shows_the_outcome():
    good = {"dataset": "d", "method": "m", "selection": "clean", "trial": 0, "status": "ok"}
    assert outcome(good | {"average_precision": 0.5, "seconds": 2.0}) == (
        "d m clean trial 0: average precision 0.5000, 2.0 s"
    )
    failed = outcome(good | {"status": "failed", "error": "ValueError: [no]"})
    assert failed == "d m clean trial 0: FAILED ValueError: [no]"


@pytest.mark.parametrize("metric", METRICS)
def test_table_has_the_means_of_the_rows(run, smoke_results, metric):
    code, out, _ = run("bench", "table", smoke_results, "--metric", metric, "--format", "csv")
    assert code == 0
    written = pd.read_csv(io.StringIO(out))
    rows = load_results(smoke_results).query("selection == 'clean'")
    expected = rows.groupby(["dataset", "method"])[metric].mean()
    for row in written[written["mean"].notna()].to_dict("records"):
        assert row["mean"] == pytest.approx(expected[(row["dataset"], row["method"])])


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("main", "terminal"),
        ("main", "markdown"),
        ("ranks", "latex"),
        ("significance", "markdown"),
        ("selection", "csv"),
    ],
)
def test_every_kind_and_every_format(run, smoke_results, kind, form):
    code, out, err = run("bench", "table", smoke_results, "--kind", kind, "--format", form)
    assert (code, err) == (0, "")
    assert "smile" in out.lower()
    code, out, _ = run("bench", "table", smoke_results, "--kind", kind, "--json")
    assert code == 0
    assert isinstance(json.loads(out), list)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "{}", "--kind", "pie"), "--kind must be one of main, ranks, significance, selection; got 'pie'"),
        (("table", "{}", "--metric", "beauty"), "expected a metric among"),
        (("table", "{}", "--format", "docx"), "docx"),
        (("table", "{}/absent"), "no results at"),
        (("status", "{}/rows"), "holds no study"),
        (("run", "absent", "--out", "{}/x"), "no study 'absent'"),
        (("run", "smoke", "--out", "{}", "--methods", "smiel"), "no method 'smiel'; it has: frequency"),
    ],
)
def test_mistakes_are_one_line(run, smoke_results, arguments, message):
    code, out, err = run("bench", *(argument.format(smoke_results) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("onepos: ")
    assert err.count("\n") == 1
    assert message in err


def test_nothing_of_the_embedded_sets_is_in_the_paper(run, smoke_results):
    code, out, _ = run("bench", "compare", smoke_results, "--json")
    assert (code, json.loads(out)) == (0, [])


def test_one_file_serves_as_well_as_the_folder(run, smoke_results, tmp_path):
    code, _, _ = run("bench", "export", smoke_results, "--out", tmp_path / "all.parquet")
    assert code == 0
    tables = [run("bench", "table", place, "--json")[1] for place in (smoke_results, tmp_path / "all.parquet")]
    assert tables[0] == tables[1]


def test_report_opens(run, browser, smoke_results, tmp_path):
    code, out, _ = run(
        "bench", "report", smoke_results, "--out", tmp_path / "r.html", "--figures", tmp_path / "f", "--json"
    )
    assert code == 0
    assert json.loads(out) == {"report": str(tmp_path / "r.html")}
    names = {path.name for path in (tmp_path / "f").iterdir()}
    for name in ("epochs-known-posterior", "convergence-known-posterior", "ranks-average_precision"):
        assert {f"{name}.svg", f"{name}.png"} <= names
    path = tmp_path / "r.html"
    assert browser.open(path) == []
    assert browser.run("document.querySelectorAll('figure svg').length") >= 5
    assert browser.complaints == []
    assert browser.foreign_requests(path) == []

"""The study's page: its numbers follow the results; a browser can sort, filter and read it, and loads nothing."""

import base64
import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from onepos.metrics import METRICS
from onepos.pages.style import embed_svg
from onepos_studies.study.report import duration, render_study_report, study_tables, summarise_study
from page_elements import Elements
from study_frame import LEVELS, NASTY, nasty_frame, nasty_page, result, results

SECTIONS = {"top", "summary", "failures", "results", "figures", "cells", "reproduce"}


@pytest.fixture(scope="module")
def frame():
    return nasty_frame()


@pytest.fixture(scope="module")
def page(frame):
    return nasty_page(frame)


def table(frame, metric="average_precision", selection="clean"):
    return next(t for t in study_tables(frame) if (t.metric, t.selection) == (metric, selection))


def row(table, dataset):
    return {method: table.cells[dataset, method] for method in table.methods}


def test_cells_are_mean_and_standard_deviation_over_trials():
    frame = pd.DataFrame([result(trial=trial, level=level) for trial, level in enumerate((0.5, 0.6, 0.8))])
    cell = row(table(frame), "scene")["smile"]
    assert cell.mean == pytest.approx(19 / 30)
    assert cell.std == pytest.approx(np.sqrt(7 / 300))
    assert cell.count == 3
    assert np.isnan(row(table(frame[:1]), "scene")["smile"].std)


def test_failed_cells_count_as_missing(frame):
    cell = row(table(frame), "CAL500")[NASTY]
    assert np.isnan([cell.mean, cell.std]).all()
    assert (cell.count, cell.best, cell.complete) == (0, False, False)
    assert row(table(frame), "scene")["role"].count == 2
    assert row(table(frame, selection="single-positive"), "scene")["role"].count == 3


def test_a_method_gains_nothing_by_missing_trials():
    frame = pd.DataFrame([result(method=key, trial=trial) for key in ("smile", "an", "role") for trial in range(2)])
    assert [cell.best for cell in row(table(frame), "scene").values()] == [True, False, False]
    assert table(frame).average_ranks == {"smile": 1, "an": 3, "role": 2}
    assert table(frame).expected_trials == 2
    frame = frame.drop(index=0)
    assert [cell.best for cell in row(table(frame), "scene").values()] == [False, False, True]
    assert table(frame).average_ranks == {"an": 2, "role": 1}


@pytest.mark.parametrize("metric", METRICS)
def test_the_best_are_those_equal_at_three_decimals_and_never_full_supervision(metric):
    # The loss of each method is a linear function of its level, so the ties below are ties in every measure.
    levels = {"smile": 0.7, "an": 0.7 + 2e-5, "role": 0.69, "bce": 0.9}
    frame = pd.DataFrame([result(method=key, level=level) for key, level in levels.items()])
    best = {key for key, cell in row(table(frame, metric), "scene").items() if cell.best}
    assert best == {"smile", "an"}


def test_average_ranks_are_those_of_scipy_over_complete_rows(frame):
    random = np.random.default_rng(0)
    frame = frame.assign(average_precision=random.random(len(frame)).round(1))
    found = table(frame, selection="single-positive")
    competing = [key for key in found.methods if key not in ("bce", NASTY)]
    assert {cells.count for cells in row(found, "CAL500").values()} == {0, 3}
    complete = [row(found, dataset) for dataset in ("scene", "yeast")]
    expected = np.mean([rankdata([-cells[key].mean for key in competing]) for cells in complete], axis=0)
    assert found.average_ranks == pytest.approx(dict(zip(competing, expected.tolist(), strict=True)))


def test_sizes_of_the_training_set_get_rows_of_their_own_and_results_given_twice_are_refused():
    frame = pd.DataFrame([result(n_train=size, level=level) for size, level in ((200, 0.5), (100, 0.4))])
    means = {dataset: cell.mean for (dataset, _), cell in table(frame).cells.items()}
    assert means == {"scene (100 training rows)": 0.4, "scene (200 training rows)": 0.5}
    with pytest.raises(ValueError, match=r"got two for dataset scene .* method smile, trial 0"):
        study_tables(pd.concat([frame, frame]))


def test_rows_and_columns_have_the_order_of_the_study(frame):
    assert table(frame).methods == ("smile", "role", "an", "forest", "frequency", "bce", NASTY)
    assert table(frame).datasets == ("yeast", "scene", "CAL500")


def words(levels, **more):
    frame = results(selections=("clean",), levels=levels, **more)
    return summarise_study(frame, study_tables(frame), {})["verdict"]


def test_the_words_follow_the_numbers(frame):
    (sentence,) = words(LEVELS)
    assert "on all 3 data sets, SMILE has the best average rank by average precision, 1.00 of 5" in sentence
    assert "next is ROLE with 2.00" in sentence
    assert "ROLE has the best" in words(LEVELS | {"smile": 0.71})[0]
    assert (
        "SMILE and ROLE share the best average rank by average precision, 1.50 of 5"
        in words(LEVELS | {"smile": 0.76})[0]
    )
    incomplete = summarise_study(frame, study_tables(frame), {})["verdict"]
    assert "on the 1 complete of 3 data sets" in incomplete[0]
    assert "on the 2 complete of 3 data sets" in incomplete[1]
    assert "not ranked" in words({"smile": 0.7})[0]


def test_a_summary_counts_what_there_is(frame):
    summary = summarise_study(frame, study_tables(frame), {"threads": 2})
    assert summary["facts"]["done"] == 101
    assert summary["facts"]["failed"] == 2
    assert summary["facts"]["time"] == "4 min 18 s"
    assert [cell["dataset"] for cell in summary["cells"][:3]] == ["scene", "CAL500", "yeast"]
    assert [cell["failed"] for cell in summary["cells"]] == [True] * 2 + [False] * 101


def test_tables_do_not_depend_on_the_order_in_which_cells_finished(frame):
    frame = frame[frame["dataset"].isin(["scene", "yeast"]) & frame["method"].isin(LEVELS)]
    for mixed, ordered in zip(study_tables(frame.sample(frac=1, random_state=0)), study_tables(frame), strict=True):
        same = ("metric", "selection", "cells", "average_ranks", "features", "expected_trials", "failed")
        assert [getattr(mixed, name) for name in same] == [getattr(ordered, name) for name in same]


def test_a_failed_cell_of_a_study_of_several_sizes_says_which(frame):
    page = render_study_report(frame.assign(train_fraction=0.25), title="")
    assert "scene · ROLE · trial 1 · clean · 0.25 of the training rows" in page
    assert "of the training rows" not in render_study_report(frame, title="")


def test_other_versions_are_shown_where_they_differ(frame):
    frame = frame.copy()
    frame.loc[frame.index[0], "versions"] = json.dumps({"torch": "2.4"})
    cells = summarise_study(frame, [], {})["cells"]
    assert [cell["unusual"] for cell in cells if cell["unusual"]] == [{"versions": "torch 2.4"}]


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34, "12.3 s"), (60, "1 min 0 s"), (250.4, "4 min 10 s"), (11_520, "3 h 12 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_markup_is_sound_and_asks_for_nothing(page):
    elements = Elements(page)
    assert set(elements.ids) >= SECTIONS
    assert len(elements.ids) == len(set(elements.ids))
    assert elements.open == []
    assert all(address.startswith(("data:", "#")) for address in elements.addresses)
    assert not re.search(r"https?://|@import|url\((?!#)", page)


def test_values_are_escaped(page):
    assert NASTY not in page
    assert "RuntimeError: &lt;script&gt;" in page
    assert "&lt;made-up&gt;" in page
    assert page.count("<script") == 1


def test_the_policy_allows_the_pages_own_script_alone(page):
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:" in page


def test_a_study_without_results_has_a_page(frame):
    page = render_study_report(frame.iloc[:0], title="Nothing yet")
    assert Elements(page).open == []
    only_failed = render_study_report(frame[frame["status"] == "failed"], title="All failed")
    assert "methods are not ranked" in only_failed
    assert "no finished cell yet" in only_failed


@pytest.mark.parametrize(
    "svg",
    [
        "<svg><script>1</script></svg>",
        '<svg onload="1"></svg>',
        '<svg><image href="http://x/y"/></svg>',
        "<svg><foreignObject/></svg>",
        "<p>no drawing</p>",
    ],
)
def test_only_drawings_are_embedded(svg):
    with pytest.raises(ValueError, match="expected"):
        embed_svg(svg, "figure-1", "")


def test_an_embedded_drawing_has_its_own_ids_a_description_and_the_pages_colours():
    svg = '<?xml version="1.0"?><svg xmlns="x"><g id="a" style="fill: #0064b0"/><use xlink:href="#a"/></svg>'
    assert embed_svg(svg, "figure-2", 'a "b"') == (
        '<svg role="img" aria-label="a &quot;b&quot;"><g id="figure-2-a" style="fill: var(--figure-blue, #0064b0)"/>'
        '<use xlink:href="#figure-2-a"/></svg>'
    )

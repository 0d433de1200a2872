"""The study's page: its numbers follow the results; a browser can sort, filter and read it, and loads nothing."""

import base64
import hashlib
import http.server
import io
import itertools
import json
import re
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from devtools import CHROMIUM, Browser
from onepos.figures import convergence, figure_svg, sufficiency
from onepos.metrics import METRICS, higher_is_better
from onepos.report.embed import embed_svg
from onepos.report.study_page import render_study_report, study_tables, write_study_report
from onepos.report.study_summary import duration, summarise_study
from study_frame import LEVELS, failed, result, results
from test_report import Elements

SECTIONS = {"top", "summary", "failures", "results", "figures", "cells", "reproduce"}
NASTY = '<script>document.title = "broken"</script>'
TRACE = f'Traceback (most recent call last):\n  File "fit.py", line 3\nRuntimeError: {NASTY}'


@pytest.fixture(scope="module")
def frame():
    # One method finished on two of three data sets, one lacks a trial, one never finished.
    lost = [failed("scene", "role", 1, error=TRACE), failed("CAL500", NASTY, 1, error="ValueError: too few rows")]
    done = results()
    done.loc[done["dataset"] == "yeast", "features"] = "substitute"
    # The best of one table stands in a column far to the right, where a phone has to scroll.
    done.loc[done["method"] == "frequency", "coverage"] = 0.01
    linear = (done["method"] == "linear") & (done["dataset"] == "CAL500")
    return pd.concat(
        [done[~linear & ~done["cell"].eq("scene/role/1/clean/400")], pd.DataFrame(lost)], ignore_index=True
    )


@pytest.fixture(scope="module")
def page(frame):
    small = frame[(frame["dataset"] == "scene") & (frame["selection"] == "clean")]
    return render_study_report(
        frame,
        title=f"A study {NASTY}",
        description="First paragraph.\n\nSecond & last.",
        figures=[(f"Figure {NASTY}", figure_svg(convergence(small))), ("Second", figure_svg(sufficiency(small)))],
        reproduce="onepos bench run made-up --out results/",
        study_file='name = "<made-up>"',
        environment={"commit": "0123", "libraries": {"torch": "2.9"}},
    )


def table(frame, metric="average_precision", selection="clean", **more):
    return next(t for t in study_tables(frame, **more) if (t.metric, t.selection) == (metric, selection))


def row(table, dataset):
    return dict(zip(table.columns, next(row for row in table.rows if row.dataset == dataset).cells, strict=True))


def test_cells_are_mean_and_standard_deviation_over_trials():
    frame = pd.DataFrame([result(trial=trial, level=level) for trial, level in enumerate((0.5, 0.6, 0.8))])
    cell = row(table(frame), "scene")["smile"]
    assert cell.mean == pytest.approx(19 / 30)
    assert cell.std == pytest.approx(np.sqrt(7 / 300))
    assert cell.count == 3
    assert row(table(frame[:1]), "scene")["smile"].std is None


def test_failed_cells_count_as_missing(frame):
    cell = row(table(frame), "CAL500")[NASTY]
    assert (cell.mean, cell.std, cell.count, cell.best) == (None, None, 0, False)
    assert row(table(frame), "scene")["role"].count == 2
    assert row(table(frame, selection="single-positive"), "scene")["role"].count == 3


def test_a_method_gains_nothing_by_missing_trials():
    frame = pd.DataFrame([result(method=key, trial=trial) for key in ("smile", "an", "role") for trial in range(2)])
    assert [cell.best for cell in row(table(frame), "scene").values()] == [True, False, False]
    assert table(frame).ranks == (1, 3, 2)
    assert table(frame).trials == 2
    frame = frame.drop(index=0)
    assert [cell.best for cell in row(table(frame), "scene").values()] == [False, False, True]
    assert table(frame).ranks == (None, 2, 1)


@pytest.mark.parametrize("metric", METRICS)
def test_the_best_are_those_equal_at_three_decimals_and_never_full_supervision(metric):
    # The loss of each method is a linear function of its level, so the ties below are ties in every measure.
    levels = {"smile": 0.7, "an": 0.7 + 2e-5, "role": 0.69, "bce": 0.9}
    frame = pd.DataFrame([result(method=key, level=level) for key, level in levels.items()])
    best = {key for key, cell in row(table(frame, metric), "scene").items() if cell.best}
    assert best == {"smile", "an"}
    assert table(frame, metric).arrow == ("↑" if higher_is_better(metric) else "↓")


def test_average_ranks_are_those_of_scipy_over_complete_rows(frame):
    random = np.random.default_rng(0)
    frame = frame.assign(average_precision=random.random(len(frame)).round(1))
    found = table(frame, selection="single-positive")
    competing = [key for key in found.columns if key not in ("bce", NASTY)]
    assert {cells.count for cells in row(found, "CAL500").values()} == {0, 3}
    complete = [row(found, dataset) for dataset in ("scene", "yeast")]
    expected = np.mean([rankdata([-cells[key].mean for key in competing]) for cells in complete], axis=0)
    ranks = dict(zip(found.columns, found.ranks, strict=True))
    assert [ranks[key] for key in competing] == pytest.approx(expected.tolist())
    assert ranks["bce"] is None
    assert ranks[NASTY] is None


def test_sizes_of_the_training_set_get_rows_of_their_own_and_results_given_twice_are_refused():
    frame = pd.DataFrame([result(n_train=size, level=level) for size, level in ((200, 0.5), (100, 0.4))])
    assert [(row.n_train, row.cells[0].mean) for row in table(frame).rows] == [(100, 0.4), (200, 0.5)]
    with pytest.raises(ValueError, match="got two of scene, smile, 0, clean"):
        study_tables(pd.concat([frame, frame]))


def test_rows_and_columns_have_the_order_of_the_study(frame):
    assert table(frame).columns == ("smile", "role", "an", "linear", "frequency", "bce", NASTY)
    assert [row.dataset for row in table(frame).rows] == ["yeast", "scene", "CAL500"]
    chosen = table(frame, datasets=["yeast", "scene"], methods=["bce", "smile"])
    assert (chosen.columns, [row.dataset for row in chosen.rows]) == (("bce", "smile"), ["yeast", "scene"])


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


def test_a_summary_is_plain_values_and_counts_what_there_is(frame):
    summary = summarise_study(frame, study_tables(frame), {"threads": 2})
    assert json.loads(json.dumps(summary))["facts"] == summary["facts"]
    assert summary["facts"]["done"] == 101
    assert summary["facts"]["failed"] == 2
    assert summary["facts"]["time"] == "4 min 18 s"
    assert [cell["dataset"] for cell in summary["cells"][:3]] == ["scene", "CAL500", "yeast"]
    assert [cell["failed"] for cell in summary["cells"]] == [True] * 2 + [False] * 101


def test_tables_do_not_depend_on_the_order_in_which_cells_finished(frame):
    order = {"datasets": ["scene", "yeast"], "methods": list(LEVELS)}
    assert study_tables(frame.sample(frac=1, random_state=0), **order) == study_tables(frame, **order)


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


def test_writing_is_atomic(frame, tmp_path, monkeypatch):
    path = tmp_path / "study.html"
    path.write_text("old", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            write_study_report(frame, path, title="new")
    assert path.read_text(encoding="utf-8") == "old"
    assert write_study_report(frame, path, title="new") == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install it to see the page in a real browser")
SHOWN = ".study-table:not([hidden])"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def path(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "study.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, path):
    """The page, newly opened; what a test does to it must bring no complaint and no request."""
    assert browser.open(path) == []
    yield browser
    assert browser.complaints == []
    assert browser.foreign_requests(path) == []


def texts(browser, selector):
    """The first line of each visible element that matches."""
    return browser.run(
        f"Array.from(document.querySelectorAll({json.dumps(selector)})).filter(e => e.checkVisibility())"
        ".map(e => e.innerText.trim().split('\\n')[0])"
    )


def datasets(browser):
    return texts(browser, f"{SHOWN} tbody th")


def focus(browser, selector):
    browser.run(f"document.querySelector({json.dumps(selector)}).focus()")


@pytest.fixture
def server():
    """Somewhere to send a request to, and who came."""
    visits = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            visits.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", visits
        server.shutdown()
        thread.join()


@in_browser
def test_nothing_is_loaded_nothing_complains_and_nothing_from_the_results_runs(opened):
    assert opened.run("document.scripts.length") == 1
    assert opened.run("document.title") == f"A study {NASTY}"
    assert opened.run("document.querySelectorAll('figure svg').length") == 2
    assert opened.run("document.querySelectorAll('#cells tbody').length") == 103


@in_browser
def test_the_policy_stops_requests_and_the_checks_can_fail(browser, path, server, tmp_path):
    address, visits = server
    loud = f"<img src='{address}/left'><script>console.error('no')</script>"
    broken = tmp_path / "broken.html"
    broken.write_text(f"<!DOCTYPE html>{loud}", encoding="utf-8")
    assert browser.open(broken) == [f"{address}/left"]
    assert visits == ["/left"]
    assert any("error" in complaint for complaint in browser.complaints)

    browser.open(path)
    browser.run(
        "window.stopped = new Promise(done =>"
        " document.addEventListener('securitypolicyviolation', e => done(e.blockedURI)));"
        f"document.body.insertAdjacentHTML('beforeend', \"<img src='{address}/stopped'>\")"
    )
    assert browser.call("Runtime.evaluate", expression="stopped", awaitPromise=True)["result"]["value"].startswith(
        address
    )
    assert visits == ["/left"]


@in_browser
def test_a_click_on_a_header_sorts_up_down_and_back(opened):
    assert datasets(opened) == ["yeast", "scene", "CAL500"]
    # By hand: levels fall by 0.05 from yeast to scene to CAL500, and Linear AN has no result on CAL500.
    header = f"{SHOWN} th[data-method=linear]"
    seen = []
    for _ in range(3):
        opened.click(f"{header} button")
        seen.append((opened.run(f"document.querySelector('{header}').ariaSort"), datasets(opened)))
    assert seen == [
        ("ascending", ["scene", "yeast", "CAL500"]),
        ("descending", ["yeast", "scene", "CAL500"]),
        ("none", ["yeast", "scene", "CAL500"]),
    ]
    opened.click(f"{header} button")
    opened.click(f"{SHOWN} th[data-method=smile] button")
    sorts = opened.run(f"Array.from(document.querySelectorAll('{SHOWN} thead th'), h => h.ariaSort)")
    assert sorts == ["none", "ascending", *["none"] * 6]
    assert opened.run("document.getElementById('result-status').textContent") == "Sorted by SMILE, ascending."
    # The average rank is no data set: it stays below.
    assert opened.run(f"document.querySelector('{SHOWN} table').lastElementChild.tagName") == "TFOOT"


@in_browser
def test_the_keyboard_alone_is_enough(opened):
    opened.press("Tab")
    assert opened.run("document.activeElement.className") == "skip"
    assert opened.run("document.activeElement.getBoundingClientRect().top >= 0")
    opened.press("Enter")
    assert opened.run("location.hash") == "#results"
    for count in itertools.count():
        opened.press("Tab")
        assert opened.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if opened.run("document.activeElement.matches('th button')"):
            break
        assert count < 30
    header = f"{SHOWN} thead th"
    for key, direction, expected in (
        ("Enter", "ascending", ["CAL500", "scene", "yeast"]),
        ("Space", "descending", ["yeast", "scene", "CAL500"]),
    ):
        opened.press(key)
        assert opened.run(f"document.querySelector('{header}').ariaSort") == direction
        assert datasets(opened) == expected
    assert opened.run("document.activeElement.textContent") == "Data set"

    focus(opened, "input[name=metric]")
    opened.press("ArrowRight")
    assert texts(opened, "#results h3")[0].startswith("One-error ↓")
    focus(opened, "#cells summary")
    opened.press("Enter")
    assert opened.run("document.querySelector('#cells details').open")


@in_browser
def test_measure_and_selection_rule_can_be_switched(opened):
    for metric, selection in itertools.product(("average_precision", "hamming_loss"), ("clean", "single-positive")):
        opened.click(f"input[value={metric}]")
        opened.click(f"input[value={selection}]")
        shown = opened.run(
            "Array.from(document.querySelectorAll('.study-table')).filter(t => t.checkVisibility())"
            ".map(t => [t.dataset.metric, t.dataset.selection])"
        )
        assert shown == [[metric, selection]]


@in_browser
def test_rows_and_columns_can_be_chosen(opened):
    focus(opened, "#result-filter")
    opened.type("C")
    assert datasets(opened) == ["scene", "CAL500"]
    opened.type("AL")
    assert datasets(opened) == ["CAL500"]
    assert opened.run("document.getElementById('result-status').textContent") == "1 of 3 rows shown."
    opened.click("input[value=one_error]")
    assert datasets(opened) == ["CAL500"]

    names = ["Data set", "SMILE", "ROLE", "AN", "Linear AN", "Frequency", "Full supervision", NASTY]
    assert texts(opened, f"{SHOWN} thead th") == names
    focus(opened, "input[name=method][value=an]")
    opened.press("Space")
    assert texts(opened, f"{SHOWN} thead th") == names[:3] + names[4:]
    assert len(texts(opened, f"{SHOWN} tfoot td")) == len(texts(opened, f"{SHOWN} tbody tr:not([hidden]) td")) == 6
    opened.click("[data-check=none]")
    assert texts(opened, f"{SHOWN} thead th") == names[:1]
    opened.click("[data-check=all]")
    assert texts(opened, f"{SHOWN} thead th") == names


@in_browser
def test_cells_can_be_sorted_and_filtered(opened):
    rows = "#cells tbody:not([hidden])"
    column = "#cells tbody:not([hidden]) tr:first-child > :nth-child({})"
    assert texts(opened, column.format(6))[:3] == ["✗ failed", "✗ failed", "ok"]
    opened.click("#cells thead th:nth-child(7) button")
    values = texts(opened, column.format(7))
    assert values[-2:] == ["–", "–"]
    assert [float(value) for value in values[:-2]] == sorted(float(value) for value in values[:-2])

    focus(opened, "#cell-filter")
    opened.type("traceback")
    assert texts(opened, rows) == []
    opened.run("document.getElementById('cell-filter').value = ''")
    opened.type("scene runtimeerror")
    assert texts(opened, column.format(2)) == ["ROLE"]
    assert opened.run("document.getElementById('cell-status').textContent") == "1 of 103 cells shown."
    opened.run("document.getElementById('cell-filter').select()")
    opened.type("smile")
    assert len(texts(opened, rows)) == 18
    focus(opened, "#cells select")
    opened.press("ArrowDown")
    assert set(texts(opened, column.format(1))) == {"CAL500"}
    assert len(texts(opened, rows)) == 6


@in_browser
@pytest.mark.parametrize("script", [True, False])
def test_a_phone_never_scrolls_sideways_but_inside_a_table(browser, path, script):
    browser.open(path, 360, 740, script=script)
    # Also with everything open that can be opened.
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") == 360
    assert browser.run("window.scrollTo(500, 0), window.scrollX") == 0
    assert browser.run("Array.from(document.querySelectorAll('.scroll')).some(s => s.scrollWidth > s.clientWidth)")


@in_browser
def test_dark_mode_is_dark_and_the_drawings_follow(browser, path):
    from PIL import Image

    pictures, inks = [], []
    for scheme in ("light", "dark"):
        browser.open(path, scheme=scheme)
        pictures.append(np.asarray(Image.open(io.BytesIO(browser.picture())).convert("L")).mean())
        inks.append(browser.run("getComputedStyle(document.querySelector('figure svg text')).fill"))
    assert pictures[0] > 200
    assert pictures[1] < 60
    assert inks == ["rgb(29, 33, 38)", "rgb(232, 230, 227)"]


@in_browser
@pytest.mark.parametrize(("script", "media"), [(False, ""), (True, "print")])
def test_without_script_and_on_paper_every_table_is_there_and_no_control(browser, path, script, media):
    browser.open(path, script=script, media=media)
    assert len(texts(browser, ".study-table")) == 10
    assert texts(browser, ".controls") == []
    assert len(texts(browser, "#cells tbody")) == 103
    browser.call("Emulation.setScriptExecutionDisabled", value=False)

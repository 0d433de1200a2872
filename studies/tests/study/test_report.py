"""The study's page: its numbers follow the results; it loads nothing."""

import re

import pandas as pd
import pytest

from onepos.pages.style import embed_svg
from onepos_studies.study.report import render_study_report, report_study, study_figures, study_tables
from page_elements import Elements
from study_frame import NASTY, nasty_frame, nasty_page, result, results

SECTIONS = {"top", "summary", "failures", "results", "figures", "reproduce"}


@pytest.fixture(scope="module")
def frame():
    return nasty_frame()


@pytest.fixture(scope="module")
def page(frame):
    return nasty_page(frame)


def test_sizes_of_the_training_set_get_rows_of_their_own():
    frame = pd.DataFrame([result(train_fraction=share, level=level) for share, level in ((1.0, 0.5), (0.25, 0.4))])
    (table,) = study_tables(frame)
    assert [row[0].text for row in table.rows] == ["scene", "scene (0.25 of the rows)", "average rank"]
    assert table.data["mean"].tolist() == [0.5, 0.4]
    with pytest.raises(ValueError, match=r"got two for dataset scene, method smile, trial 0"):
        study_tables(pd.concat([frame, frame]))


def test_tables_do_not_depend_on_the_order_in_which_cells_finished():
    frame = results()
    for mixed, ordered in zip(study_tables(frame.sample(frac=1, random_state=0)), study_tables(frame), strict=True):
        key = ["dataset", "method"]
        pd.testing.assert_frame_equal(
            mixed.data.sort_values(key, ignore_index=True), ordered.data.sort_values(key, ignore_index=True)
        )


def test_what_is_there_is_shown(frame, page):
    tables = study_tables(frame)
    assert len(tables) == 2
    for table in tables:
        for row in table.rows:
            assert f'<th scope="row">{row[0].text}</th>' in page
            assert all(f">{cell.text}{cell.mark}</td>" in page for cell in row[1:])
    assert re.search(r"cells failed</dt><dd>2<", page)
    assert "scene · role · trial 1 · clean: Traceback" in page


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
    assert "<script" not in page


def test_figures_are_those_that_the_rows_have_data_for():
    frame = results().assign(train_fraction=1.0)
    names = [figure.name for figure in study_figures(frame)]
    assert {"ranks-average_precision", "epochs-scene", "convergence-yeast", "calibration-CAL500"} <= set(names)
    assert "epochs-scene-single-positive" in names
    page = render_study_report(frame, list(study_figures(frame)))
    assert page.count("<figure") == 12
    assert "coverage" not in page


def test_a_study_without_results_is_refused(tmp_path, frame):
    frame[frame["status"] == "failed"].to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="no finished cell to report on"):
        report_study(tmp_path / "rows.parquet")


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

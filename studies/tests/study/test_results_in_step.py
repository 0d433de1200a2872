"""Tables and figures of the docs are those that the committed results files give."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from build import main
from onepos_studies.study import load_results
from results_page.builder import METHODS, PAGES, PAPER, RESULTS, make, out_of_step, replace_blocks
from results_page.label_blocks import NATURAL, SHARES, THRESHOLDS
from results_page.source import FILES
from study_frame import result

ROOT = Path(__file__).parents[3]
TEXT = "Before.\n<!-- begin a -->\nold\n<!-- end a -->\nBetween.\n<!-- begin b -->\n<!-- end b -->\nAfter.\n"
NEW = {"a": "new", "b": "too"}


@pytest.fixture(scope="module")
def made():
    return make(ROOT)


def contents(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_committed_docs_are_in_step(made):
    assert not out_of_step(made, ROOT), "run `make results`"


def test_numbers_are_those_of_the_rows(made):
    rows = load_results(ROOT / FILES["smile-paper"])
    rows = rows[(rows["dataset"] == "scene") & (rows["method"] == "wan") & (rows["selection"] == "clean")]
    mean, std = rows["average_precision"].mean(), rows["average_precision"].std()
    shown = f"{mean:.3f}±{std:.3f}".replace("0.", ".")
    table = made.texts[METHODS].partition("<!-- begin average-precision -->")[2]
    table = table.partition("<!-- end average-precision -->")[0]
    header, _, *lines = [line.split(" | ") for line in table.strip().splitlines()]
    (line,) = [line for line in lines if line[0] == "| `wan`"]
    assert line[header.index("scene")] == shown
    assert len(header) == 10
    assert shown in made.texts[PAPER]


def test_a_changed_number_is_found_and_prose_is_kept(tmp_path, capsys):
    files = [*PAGES, *FILES.values(), THRESHOLDS, NATURAL, SHARES]
    files += [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "figures").glob("*")]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    prose = "# Results\n\nA sentence <b>by hand</b>.\n"
    (tmp_path / RESULTS).write_text((tmp_path / RESULTS).read_text().replace("# Results\n", prose))
    rows = load_results(tmp_path / FILES["smile-paper"])
    own = (rows["dataset"] == "scene") & (rows["method"] == "smile") & (rows["selection"] == "clean")
    cell = rows.index[own][0]
    rows.loc[cell, "average_precision"] += 0.01
    curve = json.loads(rows.loc[cell, "curve"])
    rows.loc[cell, "curve"] = json.dumps(curve | {"test": [value / 2 for value in curve["test"]]})
    rows.to_parquet(tmp_path / FILES["smile-paper"])
    before = contents(tmp_path)
    assert main(["--check"], tmp_path) == 1
    assert contents(tmp_path) == before
    printed = capsys.readouterr().out
    for file in (PAPER, METHODS, "docs/figures/epochs-scene.svg"):
        assert f"out of step: {file}" in printed
    assert "ablation" not in printed
    assert "calibration-yeast" not in printed
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    assert (tmp_path / RESULTS).read_text().startswith(prose)


def test_rows_of_another_study_are_refused(tmp_path):
    for file in FILES.values():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame([result(key="smile")]).to_parquet(tmp_path / file)
    with pytest.raises(ValueError, match="does not hold the study smile-paper as it is now"):
        make(tmp_path)


def test_only_blocks_are_replaced():
    text = replace_blocks(TEXT, NEW, "page")
    assert text == TEXT.replace("old", "new").replace("begin b -->\n", "begin b -->\ntoo\n")
    assert replace_blocks(text, NEW, "page") == text


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("<!-- begin a -->\n", ""),
        TEXT.replace("<!-- end a -->\n", ""),
        TEXT.replace("<!-- end b -->\n", ""),
        TEXT + TEXT,
        TEXT.partition("Between.")[0],
        TEXT + "<!-- begin c -->\n<!-- end c -->\n",
    ],
)
def test_wrong_markers_are_named(text):
    with pytest.raises(ValueError, match="page: expected a begin and an end marker for each of a, b; found"):
        replace_blocks(text, NEW, "page")

"""Tables and figures of the docs are those that the committed results files give."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from build import main
from onepos_studies.study import load_results
from results_page.builder import FIGURES, METHODS, PAGES, PAPER, RESULTS, make, write
from results_page.markers import MarkerError, replace_between, replace_blocks
from results_page.source import FILES, plan
from study_frame import curve, result, soft_labels

ROOT = Path(__file__).parents[3]
TEXT = "Before.\n<!-- begin a -->\nold\n<!-- end a -->\nBetween.\n<!-- begin b -->\n<!-- end b -->\nAfter.\n"
NEW = {"a": "new", "b": "too"}


def made_up(name):
    """Rows for every cell of a shipped study; methods, data sets, trials and sizes differ a little."""
    study, planned = plan(name)
    methods = [method.name for method in study.methods]
    rows = []
    for cell in planned.to_dict("records"):
        method, dataset, trial = cell["method"], cell["dataset"], cell["trial"]
        # The offset by data set keeps the ranks of the methods from being the same everywhere.
        level = 0.5 + 0.02 * methods.index(method) + 0.01 * ((methods.index(method) * len(dataset)) % 5)
        level += 0.003 * trial - 0.02 * (cell["rule"] != "clean") + 0.05 * cell["train_fraction"]
        rows.append(
            result(
                dataset,
                method,
                trial,
                cell["rule"],
                level=level,
                cell=cell["cell"],
                train_fraction=cell["train_fraction"],
                n_train=int(10_000 * cell["train_fraction"]),
                curve=json.dumps(curve(level, 12)) if dataset == "scene" else "{}",
                extra=json.dumps(soft_labels(level, 12)) if method == "smile" else "{}",
            )
        )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A repository with made-up results of every study, built: its root, and what was made."""
    root = tmp_path_factory.mktemp("repository")
    for file in (METHODS, *PAGES):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    for name, file in FILES.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        made_up(name).to_parquet(root / file)
    made = make(root)
    write(made, root)
    return root, made


def contents(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_committed_docs_are_in_step():
    made = make(ROOT)
    assert not made.changes, "run `make results`: " + "; ".join(map(str, made.changes))
    # What is left out is left out for want of rows, and for nothing else.
    absent = {note.partition(":")[0] for note in made.notes if "No results yet" in note} & set(FILES)
    assert absent == {name for name, file in FILES.items() if not (ROOT / file).is_file()}


def test_complete_results_fill_everything(built):
    root, made = built
    assert not made.notes
    assert all(drawing.figure is not None for drawing in made.drawings)
    files = {f"{drawing.name}{suffix}" for drawing in made.drawings for suffix in (".svg", ".png")}
    assert {path.name for path in (root / FIGURES).iterdir()} == files
    for page in (page for page in PAGES if "results" in page):
        text = (root / page).read_text()
        assert not [words for words in ("No results yet", "Not drawn", "Not tested", "missing of") if words in text]


def test_numbers_are_those_of_the_rows(built):
    root, _ = built
    rows = load_results(root / FILES["smile-paper"])
    rows = rows[(rows["dataset"] == "scene") & (rows["method"] == "wan") & (rows["selection"] == "clean")]
    mean, std = rows["average_precision"].mean(), rows["average_precision"].std()
    shown = f"{mean:.3f}±{std:.3f}".replace("0.", ".")
    table = (root / METHODS).read_text().partition("<!-- table: average precision -->")[2]
    header, _, *lines = [line.split(" | ") for line in table.partition("<!-- end of table -->")[0].strip().splitlines()]
    (line,) = [line for line in lines if line[0] == "| `wan`"]
    assert line[header.index("scene")] == shown
    assert len(header) == 10
    assert shown in (root / PAPER).read_text()


def test_a_changed_number_is_found_and_prose_is_kept(built, tmp_path, capsys, monkeypatch):
    root = shutil.copytree(built[0], tmp_path / "copy")
    prose = "# Results\n\nA sentence <b>by hand</b>.\n"
    (root / RESULTS).write_text((root / RESULTS).read_text().replace("# Results\n", prose))
    rows = load_results(root / FILES["smile-paper"])
    cell = rows.index[(rows["dataset"] == "scene") & (rows["method"] == "smile") & (rows["selection"] == "clean")][0]
    rows.loc[cell, "average_precision"] += 0.01
    rows.loc[cell, "curve"] = json.dumps(curve(0.9, 12))
    rows.to_parquet(root / FILES["smile-paper"])
    (root / FILES["sufficiency"]).unlink()
    before = contents(root)
    # Made once for both commands: drawing takes the time of this test.
    made = make(root)
    monkeypatch.setattr("build.make", lambda root: made)
    assert main(["--check"], root) == 1
    assert contents(root) == before
    printed = capsys.readouterr().out
    assert "out of step: docs/results/smile-paper.md: block 'smile-paper average-precision'" in printed
    assert f"out of step: {METHODS}" in printed
    assert "out of step: docs/figures/epochs-scene.svg: is another picture" in printed
    assert "out of step: docs/figures/sufficiency-tmc2007.svg" in printed
    assert "block 'ablation" not in printed
    assert "calibration-yeast" not in printed
    # Written, all is in step; the figure without rows is gone, the sentence is not.
    assert main([], root) == 0
    assert make(root).changes == ()
    assert not (root / FIGURES / "sufficiency-tmc2007.png").exists()
    assert (root / RESULTS).read_text().startswith(prose)


def test_rows_of_another_study_are_refused(tmp_path):
    file = tmp_path / FILES["ablation"]
    file.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([result(key="smile")]).to_parquet(file)
    with pytest.raises(ValueError, match="no cells of the study ablation as it is now"):
        make(tmp_path)


def test_only_blocks_are_replaced():
    text, changed = replace_blocks(TEXT, NEW, "page")
    assert text == TEXT.replace("old", "new").replace("begin b -->\n", "begin b -->\ntoo\n")
    assert changed == ["a", "b"]
    assert replace_blocks(text, NEW, "page") == (text, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("<!-- begin a -->\n", ""), "page: .* look at 'end a'"),
        (TEXT.replace("<!-- end a -->\n", ""), "page: .* look at 'begin b'"),
        (TEXT.replace("<!-- end b -->\n", ""), "page: .* look at"),
        (TEXT + TEXT, "page: .* unknown or twice: .*"),
        (TEXT.partition("Between.")[0], "page: .* missing: b"),
        (TEXT + "<!-- begin c -->\n<!-- end c -->\n", "page: .* unknown or twice: c"),
    ],
)
def test_wrong_markers_are_named(text, message):
    with pytest.raises(MarkerError, match=message):
        replace_blocks(text, NEW, "page")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<b>", "README: expected <e> once; found it 0 times"),
        ("<b><b><e>", "README: expected <b> once; found it 2 times"),
        ("<e><b>", "README: <e> stands before <b>"),
    ],
)
def test_wrong_markers_of_a_table_are_named(text, message):
    with pytest.raises(MarkerError, match=message):
        replace_between(text, "<b>", "<e>", "new", "README")

"""The gallery: every example runs, and its page shows the code that is there."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "gallery"

spec = importlib.util.spec_from_file_location("gallery", ROOT / "examples" / "gallery.py")
gallery = importlib.util.module_from_spec(spec)
# Dataclasses look their module up while they are made.
sys.modules["gallery"] = gallery
spec.loader.exec_module(gallery)

#: Small enough for a test, large enough for every step to have something to work on.
SMALL = {
    "table": ["--rows", "150"],
    "text": ["--rows", "150"],
    "images": ["--rows", "60"],
    "review_loop": ["--rows", "100"],
    "theory": ["--seeds", "2"],
    "compare": ["--rows", "120", "--trials", "1"],
}


def page_of(name):
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def pictures_on(page):
    return re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page)


def test_every_example_is_in_the_gallery():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"gallery", "risk_theory"}
    assert scripts == set(gallery.NAMES) == set(SMALL)
    assert {path.stem for path in PAGES.glob("*.md")} == scripts | {"index"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::onepos.exceptions.LabelWarning")
@pytest.mark.parametrize("name", gallery.NAMES)
def test_examples_run(name, tmp_path):
    example = gallery.run_example(gallery.read_example(name), tmp_path, SMALL[name])
    drawn = [picture for cell in example.cells for picture in cell.pictures]
    assert drawn == pictures_on(page_of(name)), "run `make gallery`"
    assert any(cell.printed for cell in example.cells)


@pytest.mark.parametrize("name", gallery.NAMES)
def test_pages_show_the_code_and_text_of_their_script(name):
    example, page = gallery.read_example(name), page_of(name)
    assert re.findall(r"^```py\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL) == [cell.code for cell in example.cells]
    for text in (example.title, example.introduction, *(cell.text for cell in example.cells)):
        assert text in page, "run `make gallery`"


def test_overview_is_in_step():
    assert page_of("index") == gallery.write_overview([gallery.read_example(name) for name in gallery.NAMES])


def test_pictures_are_small_and_all_shown():
    shown = {picture for name in gallery.NAMES for picture in pictures_on(page_of(name))}
    assert {path.name for path in PAGES.iterdir() if path.suffix != ".md"} == shown
    for picture in shown:
        assert (PAGES / picture).stat().st_size < 80_000, f"{picture} is too large"


def test_cells_are_split_at_their_marks(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "EXAMPLES", tmp_path)
    (tmp_path / "two.py").write_text(
        '"""Two.\n\nIntro.\n"""\n\n# %%\n# Text.\n\na = 1\n\n# %%\n# More.\n\nprint(a + 1)\n'
    )
    example = gallery.run_example(gallery.read_example("two"), tmp_path)
    assert (example.title, example.introduction) == ("Two", "Intro.")
    assert [(cell.text, cell.code, cell.printed) for cell in example.cells] == [
        ("Text.", "a = 1", ""),
        ("More.", "print(a + 1)", "2"),
    ]

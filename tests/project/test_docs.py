"""The documentation holds together: every method has a page of the agreed shape, links resolve, examples run."""

import dataclasses
import re
from ast import literal_eval
from pathlib import Path

import pytest

from onepos.methods._base import OnePositiveClassifier
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import installed_methods

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "methods"
INDEX = PAGES / "README.md"
METHOD_PAGES = sorted(path for path in PAGES.glob("*.md") if path != INDEX)
LINKED = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

SECTIONS = ("Formula", "Parameters", "Assumptions", "When to use it", "What it needs", "Reference")
#: Pages whose table of parameters gives each default as a Python literal.
TABLED = (
    *("auto", "smile", "smile-si", "role", "epr", "em", "ll-r", "hill", "splc", "gr", "crisp"),
    *(
        "an",
        "softmax",
        "capped",
        "kernel",
        "forest",
        "logistic",
        "frequency",
        "bce",
        "glocal",
        "mlml",
        "d2ml",
    ),
)

METHODS = installed_methods()
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def prose(page):
    """Text of a page without its fenced blocks, in which brackets and # mean something else."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def headings(page):
    return re.findall(r"^#{1,6} (.+?) *$", prose(page), re.MULTILINE)


def anchors(page):
    """Anchors as GitHub makes them: lower case, punctuation dropped, blanks to hyphens."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def page_of(key):
    """Page that the index links for a method."""
    targets = re.findall(rf"\[`{re.escape(key)}`\]\(([^)#]+)\)", INDEX.read_text(encoding="utf-8"))
    assert targets, f"{key} is not linked in {INDEX.name}"
    return PAGES / targets[0]


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("key", METHODS)
def test_every_method_has_a_page_in_the_index(key):
    page = page_of(key)
    assert page.is_file()
    title = page.read_text(encoding="utf-8").splitlines()[0]
    assert f"`{key}`" in title


def test_every_page_belongs_to_a_method():
    assert {page_of(key) for key in METHODS} == set(METHOD_PAGES)


@pytest.mark.parametrize("page", METHOD_PAGES, ids=name_of)
def test_pages_have_the_agreed_sections_in_order(page):
    found = headings(page)
    present = [heading for heading in found if heading in SECTIONS]
    assert present == list(SECTIONS)


@pytest.mark.parametrize("page", METHOD_PAGES, ids=name_of)
def test_pages_open_with_the_idea(page):
    title, _, rest = page.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith("# ")
    assert "\n" not in title
    assert not rest.startswith(("#", "|", "    ", "```"))


def defaults(kind):
    """Parameters of a class with their defaults."""
    return {field.name: field.default for field in dataclasses.fields(kind)}


def tabled_parameters(page, heading):
    """Names and default literals of the table below a heading."""
    section = re.split(r"^## ", page.read_text(encoding="utf-8").partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| `(.+?)` \|$", section, re.MULTILINE)
    return {name: literal_eval(default) for name, default in rows}


@pytest.mark.parametrize("key", TABLED)
def test_parameter_tables_are_those_of_the_code(key):
    """A page has all parameters of its own. It may repeat a shared one that has a further meaning."""
    kind = METHODS[key].load_class()
    shared = NeuralClassifier if issubclass(kind, NeuralClassifier) else OnePositiveClassifier
    tabled = tabled_parameters(page_of(key), "Parameters")
    assert {name: default for name, default in defaults(kind).items() if name in tabled} == tabled
    assert defaults(kind).keys() - tabled.keys() <= defaults(shared).keys()


def test_shared_parameters_are_those_of_the_code():
    everywhere = tabled_parameters(INDEX, "Parameters of all methods")
    assert everywhere == defaults(OnePositiveClassifier)
    assert tabled_parameters(INDEX, "Parameters of all neural methods") | everywhere == defaults(NeuralClassifier)


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_relative_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue  # an address outside the repository
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} is linked but not there"
        assert linked.is_relative_to(ROOT), f"{target} lies outside the repository"
        if anchor:
            assert anchor in anchors(linked), f"{target}: no such heading"


@pytest.mark.parametrize(
    "page", [page for page in LINKED[2:] if "```python" in page.read_text(encoding="utf-8")], ids=name_of
)
def test_python_blocks_run_in_sequence(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for kind, source in FENCED.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(source, page.name, "exec"), namespace)


def test_a_method_of_your_own_uses_public_names_alone():
    page = (ROOT / "docs" / "contributing-a-method.md").read_text(encoding="utf-8")
    imported = re.findall(r"^ *(?:from|import) (onepos[\w.]*)(?: import (.*))?$", page, re.MULTILINE)
    assert {"onepos.extending", "onepos.testing"} <= {module for module, _ in imported}
    assert not [f"{module} {names}" for module, names in imported if re.search(r"(^|[.\s])_", f"{module} {names}")]

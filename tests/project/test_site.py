"""The documentation site: it builds without a warning and without the network, and its reference leaves nothing out."""

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import griffe
import pytest

import onepos

ROOT = Path(__file__).parents[2]
MODULES = sorted(f"onepos.{found.name}" for found in pkgutil.iter_modules(onepos.__path__) if found.name[0] != "_")


def names_of(module):
    """Public names of a module: those that it lists, else what it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [name for name, value in vars(module).items() if name[0] != "_" and defined_in(value, module)]


def defined_in(value, module):
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__


def public_names():
    """Every public name as ``module.name``; modules are documented by their own names."""
    for path in ["onepos", *MODULES]:
        module = importlib.import_module(path)
        for name in names_of(module):
            if not inspect.ismodule(getattr(module, name)):
                yield f"{path}.{name}"


@pytest.fixture(scope="module")
def public():
    return sorted(public_names())


@pytest.fixture(scope="module")
def sources():
    """The package as the documentation tool reads it: it knows the comments of constants too."""
    extensions = griffe.load_extensions(str(ROOT / "docs" / "hooks" / "sources.py"))
    return griffe.load("onepos", search_paths=[str(ROOT / "src")], extensions=extensions)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, made where no connection can be opened."""
    folder = tmp_path_factory.mktemp("site")
    without_network = "import socket, sys\ndef refuse(*_):\n    raise OSError('the build reached for the network')\n"
    without_network += "socket.socket.connect = refuse\nfrom mkdocs.__main__ import cli\ncli(prog_name='mkdocs')"
    command = [sys.executable, "-c", without_network, "build", "--strict", "--site-dir", str(folder)]
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    return folder


class Page(HTMLParser):
    """Collects the anchors of a page and the addresses that it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.loaded = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.anchors.add(given["id"])
        if tag != "a":
            self.loaded += [given[name] for name in ("src", "href", "srcset", "data") if given.get(name)]


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_public_name_has_a_docstring(sources, public):
    silent = [name for name in public if not sources[name.removeprefix("onepos.")].has_docstring]
    assert silent == [], "each needs a docstring, or #: above a constant"


def test_every_public_module_has_a_docstring():
    assert [path for path in MODULES if not importlib.import_module(path).__doc__] == []


@pytest.mark.slow
def test_reference_has_every_public_name(pages, public):
    there = set().union(*(page.anchors for name, page in pages.items() if name.startswith("api/")))
    assert [name for name in public if name not in there] == [], "add '::: module' to a page in docs/api"


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(pages, site):
    foreign = {name: [url for url in page.loaded if re.match(r"(https?:)?//", url)] for name, page in pages.items()}
    assert {name: urls for name, urls in foreign.items() if urls} == {}
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


@pytest.mark.slow
def test_what_pages_load_is_there(pages, site):
    for name, page in pages.items():
        for url in page.loaded:
            path = url.partition("#")[0].partition("?")[0]
            if path and not path.startswith(("data:", "/")):  # the page of errors knows only absolute places
                assert (site / name).parent.joinpath(path).exists(), f"{name} loads {url}"


@pytest.mark.slow
def test_every_method_page_is_in_the_navigation(site):
    navigation = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "methods").glob("*.md"):
        address = "index.html" if page.stem == "README" else f"{page.stem}.html"
        assert f'href="methods/{address}"' in navigation


def test_all_guides_are_in_one_text(site):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# onepos")
    for name in ("quickstart", "tables", "choosing", "thresholds", "studies", "methods/smile"):
        assert (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") in text

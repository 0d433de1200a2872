"""Methods of other packages say what they are by one class attribute."""

import pytest

import onepos
from onepos.methods.registry import get_method

STRONG = """
from dataclasses import dataclass
from typing import Any, ClassVar
from onepos import LogisticClassifier

@dataclass(kw_only=True, eq=False, repr=False)
class StrongClassifier(LogisticClassifier):
    about: ClassVar[dict[str, Any]] = {about}
"""
ABOUT = {
    "name": "Strong",
    "paper": "Doe, On Strength",
    "year": 2026,
    "assumptions": "none",
    "needs": "patience",
    "revision": 4,
    "preset": {"l2": 1000.0},
}


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """Return a function that installs a package whose class has these facts."""

    def install(package, about):
        (tmp_path / f"{package}.py").write_text(STRONG.replace("{about}", repr(about)))
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[onepos.methods]\n{package} = {package}:StrongClassifier\n")
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_what_a_class_says_about_itself_is_listed_and_used(registered):
    registered("strong_one", ABOUT)
    row = onepos.list_methods().loc["strong_one"]
    assert {name: row[name] for name in ABOUT.keys() - {"preset"}} == {
        name: value for name, value in ABOUT.items() if name != "preset"
    }
    assert onepos.make_classifier("strong_one").l2 == 1000.0
    assert get_method("strong_one:StrongClassifier").revision == 4


def test_facts_that_no_method_has_are_named(registered):
    registered("strong_two", {"title": "Strong"})
    with pytest.raises(ValueError, match=r"strong_two:StrongClassifier.about may have name, paper, .*title"):
        onepos.make_classifier("strong_two")


def test_a_method_of_the_studies_names_their_package(monkeypatch):
    monkeypatch.setattr("onepos.methods.registry.entry_points", lambda **which: ())
    with pytest.raises(ValueError, match="'mlml' is in another package: pip install onepos-studies"):
        onepos.make_classifier("mlml")

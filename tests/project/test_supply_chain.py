"""Pins, lower bounds, licences, the bill of materials and the packages: in step with each other."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "benchmarks" / "supply_chain"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pinned = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): Version(version) for package, version in pinned}


def requirements(*parts):
    lines = [line for part in parts for line in PROJECT["optional-dependencies"][part]]
    return {canonicalize_name(r.name): r for r in map(Requirement, [*PROJECT["dependencies"], *lines])}


#: Pins that the tested environment does not have.
ELSEWHERE = {"hatchling"}
USERS = [part for part in PROJECT["optional-dependencies"] if part not in ("dev", "docs")]


def test_the_lowest_versions_that_are_tested_are_the_lowest_that_are_allowed():
    lowest = pins("constraints-lowest.txt")
    for name, requirement in requirements(*USERS).items():
        (bound,) = requirement.specifier
        assert bound.operator == ">=", requirement
        if name == "torch":  # no CPU-only build of an older one is to be had
            assert lowest[name] >= Version(bound.version)
        else:
            # 1.26 allows 1.26.0 and nothing before it.
            assert lowest[name] == Version(bound.version), requirement


def test_the_pinned_versions_are_allowed_and_are_what_runs_here():
    pinned = pins("constraints.txt")
    for name, requirement in requirements(*USERS, "docs").items():
        assert requirement.specifier.contains(pinned[name]), requirement


def test_every_pin_has_a_licence_and_a_part_that_brings_it():
    rows = (ROOT / "DEPENDENCIES.md").read_text(encoding="utf-8").split("| package |")[1].splitlines()[2:]
    listed = {}
    for row in rows:
        package, version, licence, parts = (cell.strip() for cell in row.strip("|").split("|"))
        listed[canonicalize_name(package)] = Version(version)
        assert licence != "not stated", row
        assert parts != "nothing", row
    assert listed == {name: version for name, version in pins("constraints.txt").items() if name not in ELSEWHERE}


def test_no_copyleft_licence_among_what_users_install():
    """MPL covers the files of the package itself; a GPL would cover what is built on it."""
    rows = (ROOT / "DEPENDENCIES.md").read_text(encoding="utf-8").splitlines()
    assert not [row for row in rows if re.search(r"\bA?L?GPL|General Public", row)]


def test_the_bill_of_materials_names_every_pin_once_and_refers_to_nothing_else():
    bill = json.loads((ROOT / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["version"] == PROJECT["version"]
    expected = {f"pkg:pypi/{name}@{v}" for name, v in pins("constraints.txt").items() if name not in ELSEWHERE}
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(references) == len(set(references))
    assert {reference.replace("_", "-") for reference in references} == expected
    known = {*references, bill["metadata"]["component"]["bom-ref"]}
    assert {edge["ref"] for edge in bill["dependencies"]} == known
    assert {name for edge in bill["dependencies"] for name in edge["dependsOn"]} <= known
    required = {component["name"] for component in bill["components"] if component["scope"] == "required"}
    assert {"numpy", "torch", "scikit-learn", "safetensors", "joblib"} <= required
    assert not {"typer", "dask", "pytest"} & required


def _installed(name):
    try:
        return Version(metadata.version(name)).public
    except metadata.PackageNotFoundError:
        return None


def test_the_files_are_what_the_script_makes_of_the_pinned_environment():
    pinned = pins("constraints.txt")
    wanted = [name for name in requirements(*USERS) if name not in ELSEWHERE]
    other = [name for name in wanted if _installed(name) != str(pinned[name])]
    if other:
        pytest.skip(f"not the pinned environment: {', '.join(other)}")
    command = [sys.executable, SCRIPTS / "dependencies.py", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_sdist_takes_everything_that_the_tests_read():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    included = set(build["sdist"]["include"])
    assert {"src", "tests", "docs", "examples", "benchmarks", "studies", "Makefile", "mkdocs.yml"} <= included
    assert all((ROOT / name).exists() for name in included)

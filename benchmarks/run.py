"""Measure everything that `make bench` promises; prints as it goes, writes results.json and RESULTS.md.

    python benchmarks/run.py                                  all sections but the long one
    python benchmarks/run.py --only all                       the long one too
    python benchmarks/run.py --only encoder,memory            these; the others keep their stored results
    python benchmarks/run.py --only encoder --datasets yeast --repeats 1 --out /some/folder

Every record is stored as soon as it is measured, so an interrupted run loses at most one. Data sets come from
$ONEPOS_DATA, else from ../shared/data; what is not there is left out and said so.
"""

import argparse
import json
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import machine

#: Sections in the order of the page; each is a file bench_<name>.py with TITLE, ABOUT and measure(options).
SECTIONS = (
    "import",
    "encoder",
    "an",
    "smile",
    "graph",
    "metrics",
    "roofline",
    "memory",
    "growth",
    "million",
    "scale",
    "study",
    "batch",
)
#: Takes hours: only when asked for by name or with "all".
LONG = ("million",)


@dataclass(frozen=True)
class Options:
    """What a section is told: how often to repeat, and to which data sets to keep (None: all of its own)."""

    repeats: int
    datasets: tuple[str, ...] | None = None

    def choose(self, names: Any) -> list[str]:
        """Return those of the section's data sets that were asked for."""
        return [name for name in names if self.datasets is None or name in self.datasets]


def merge(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the old records of the cases and measures measured anew; a case measured now is no longer left out."""

    def key(record: dict[str, Any]) -> tuple[str, str]:
        return record["case"], record.get("measure", "")

    fresh = {key(record): record for record in new}
    measured = {record["case"] for record in new}
    kept = [fresh.pop(key(r), r) for r in old if not ("left_out" in r and r["case"] in measured)]
    return kept + list(fresh.values())


def selected(only: str | None) -> list[str]:
    """Names of the sections to run, from what follows --only."""
    if only == "all":
        return list(SECTIONS)
    if only is None:
        return [name for name in SECTIONS if name not in LONG]
    names = [name.strip() for name in only.split(",")]
    unknown = sorted(set(names) - set(SECTIONS))
    if unknown:
        raise SystemExit(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in names]


def store(folder: Path, results: dict[str, Any], texts: dict[str, tuple[str, str]]) -> None:
    """Write both files, each in one step: an interruption leaves the old or the new one, never half of it."""
    from render import render

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("results.json", json.dumps(results, indent=1)), ("RESULTS.md", render(results, texts))):
        part = folder / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / name)


def main() -> None:
    """Read the options, run the sections, keep what was stored before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"comma-separated: {', '.join(SECTIONS)}; or all")
    parser.add_argument("--datasets", help="comma-separated; default: all that a section asks for")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=machine.HERE, help="folder of results.json and RESULTS.md")
    arguments = parser.parse_args()
    datasets = tuple(arguments.datasets.split(",")) if arguments.datasets else None
    options = Options(arguments.repeats, datasets)
    names = selected(arguments.only)
    machine.prepare()
    from render import line

    warnings.simplefilter("ignore")  # about early stopping and unfinished sklearn training: both are meant
    modules = {name: import_module(f"bench_{name}") for name in SECTIONS}
    texts = {name: (module.TITLE, " ".join(module.ABOUT.split())) for name, module in modules.items()}
    path = arguments.out / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sections": {}}
    for name in names:
        print(f"\n{texts[name][0]}", flush=True)
        before = results["sections"].get(name, {}).get("records", [])
        about = {"machine": machine.describe(), "load": machine.load()}
        fresh: list[dict[str, Any]] = []
        for record in modules[name].measure(options):
            print(" ", line(record), flush=True)
            fresh.append(record)
            results["sections"][name] = {**about, "records": merge(before, fresh)}
            store(arguments.out, results, texts)
        if not fresh:
            print("  nothing to measure with these data sets", flush=True)
        if datasets is None and fresh:  # the section is complete: what it no longer measures goes
            results["sections"][name]["records"] = fresh
            store(arguments.out, results, texts)
    print(f"\nwrote {arguments.out / 'RESULTS.md'}")


if __name__ == "__main__":
    main()

"""results.json → RESULTS.md: one table per section, and at the top how many targets are met."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from harness import is_met

_COLUMNS = ("case", "measure", "value", "min–max", "repeats", "target", "met", "medians behind it")


def render(results: Mapping[str, Any], texts: Mapping[str, tuple[str, str]]) -> str:
    """Write the page.

    Parameters
    ----------
    results : {"sections": {name: {"records", "machine", "load"}}}
    texts : {name: (title, what is measured)}
        In the order of the page; sections without results are left out.
    """
    sections = {name: results["sections"][name] for name in texts if name in results["sections"]}
    machines = [section["machine"] for section in sections.values()]
    lines = ["# Measured by `make bench`", ""]
    if machines:
        lines += [_machine(machines[0]), ""]
    lines += [
        "All competitors use one thread unless a section says otherwise, and take turns. A ratio is the median over",
        "repeats of the ratio within a repeat, with its smallest and largest value. `results.json` has every number.",
        "",
        *_summary(sections, texts),
    ]
    for name, section in sections.items():
        title, about = texts[name]
        lines += ["", f"## {title}", "", f"`python benchmarks/run.py --only {name}`. {about}", ""]
        if section["machine"] != machines[0]:
            lines += ["Measured elsewhere: " + _machine(section["machine"]), ""]
        lines += [f"Load of the machine when the section was last started: {section['load']}.", ""]
        lines += [_cells(_COLUMNS), "|" + "---|" * len(_COLUMNS), *(_row(record) for record in section["records"])]
        lines += _notes(section["records"])
    return "\n".join(lines) + "\n"


def verdict(record: Mapping[str, Any]) -> str:
    """Say "met", "**not met**", or a dash where there is no target."""
    if "target" not in record:
        return "–"
    return "met" if is_met(record["value"], record["target"]) else "**not met**"


def number(value: float) -> str:
    """Three significant digits, without an exponent where a reader needs none."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:.1e}"


def line(record: Mapping[str, Any]) -> str:
    """One record for the terminal."""
    if "left_out" in record:
        return f"{record['case']}: left out, {record['left_out']}"
    target = f"  (target {record['target']}: {verdict(record).strip('*')})" if "target" in record else ""
    return f"{record['case']}: {record['measure']} {_with_unit(record, record['value'])}{target}"


def _with_unit(record: Mapping[str, Any], value: float) -> str:
    unit = record["unit"]
    return number(value) + (unit if unit in ("×", "%", "") else f" {unit}")


def _row(record: Mapping[str, Any]) -> str:
    if "left_out" in record:
        return _cells([record["case"], f"left out: {record['left_out']}", *[""] * (len(_COLUMNS) - 2)])
    low, high = record.get("low"), record.get("high")
    between = f"{number(low)}–{number(high)}" if low is not None and low != high else ""
    raw = record.get("raw", {})
    behind = ", ".join(f"{name} {number(median(values))}" for name, values in raw.items())
    repeats = str(max(map(len, raw.values()))) if raw else ""
    target = record.get("target", "–").replace(">=", "≥").replace("<=", "≤")
    cells = [record["case"], record["measure"], _with_unit(record, record["value"]), between, repeats, target]
    return _cells([*cells, verdict(record), behind])


def _cells(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _notes(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each note once, with the cases it is about."""
    cases: dict[str, list[str]] = {}
    for record in records:
        if record.get("note"):
            cases.setdefault(record["note"], []).append(record["case"])
    return ["", *(f"- {', '.join(dict.fromkeys(names))}: {note}" for note, names in cases.items())] if cases else []


def _summary(sections: Mapping[str, Any], texts: Mapping[str, tuple[str, str]]) -> list[str]:
    judged = [(name, r) for name, section in sections.items() for r in section["records"] if "target" in r]
    missed = [(name, r) for name, r in judged if not is_met(r["value"], r["target"])]
    lines = [f"**{len(judged) - len(missed)} of {len(judged)} targets met.**"]
    if missed:
        lines += ["Not met:", ""]
        for name, r in missed:
            reached = f"{_with_unit(r, r['value'])}, target {r['target']}"
            lines.append(f"- {texts[name][0]}, {r['case']}, {r['measure']}: {reached}")
    return lines


def _machine(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; {versions}."

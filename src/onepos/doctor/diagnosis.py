"""A diagnosis: a summary of the data and a list of findings. ``findings.toml`` has the words of each finding."""

import json
import shlex
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

Level: TypeAlias = Literal["note", "warning", "error"]
Interface: TypeAlias = Literal["python", "command line"]

#: From harmless to fatal.
LEVELS: tuple[Level, ...] = ("note", "warning", "error")
_LONGEST_NAME = 40
_MOST_NAMES = 5  # Names that a sentence or an option lists
_WIDTH = 80
_MARGIN = 9  # "warning" and two blanks
_MOST_LABELS, _MOST_COLUMNS = 10, 20

_DECLARED = tomllib.loads((files("onepos.doctor") / "findings.toml").read_text(encoding="utf-8"))
#: The title of each finding, by its code; ``docs/doctor.md`` has what to do about it.
CODES: Mapping[str, str] = MappingProxyType({code: declared["title"] for code, declared in _DECLARED.items()})


@dataclass(frozen=True)
class Finding:
    """One thing that was seen in the data.

    A "note" is worth knowing; a "warning" is likely to hurt; with an "error" there is nothing sensible to fit. ``code``
    is the stable name of the check, listed in docs/doctor.md, and ``title`` says what it means. ``detail`` says what
    was seen, with numbers, and what to do. ``about`` names the columns, labels or first ids concerned.
    """

    level: Level
    code: str
    title: str
    detail: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Summary:
    """The data in numbers.

    ``columns`` counts columns by kind, as in ``ColumnEncoder.kinds_``, or "sparse" or "other". ``tags_missing`` counts
    rows without an observed label. ``label_counts`` has the rows in which each label is observed, most frequent first.
    ``became`` says what ``fit`` makes of each named column; those that it leaves out come first.
    """

    rows: int
    columns: dict[str, int]
    labels: int
    tags_missing: int
    label_counts: tuple[tuple[str, int], ...]
    became: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """The result of :func:`onepos.doctor.diagnose`: a summary, and the findings, the most serious ones first."""

    summary: Summary
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Level | None:
        """The most serious level among the findings; None without findings."""
        return max((finding.level for finding in self.findings), key=LEVELS.index, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers, ready for ``json.dumps``."""
        summary = asdict(self.summary)
        summary["label_counts"] = [{"label": name, "rows": count} for name, count in self.summary.label_counts]
        summary["became"] = dict(self.summary.became)
        findings = [{**asdict(finding), "about": list(finding.about)} for finding in self.findings]
        return {"summary": summary, "worst": self.worst, "findings": findings}

    def to_text(self) -> str:
        """Plain text, at most 80 characters wide: the summary, then each finding with its level in the margin."""
        margin, lines = " " * _MARGIN, _summary_lines(self.summary)
        blocks = ["\n".join(_wrapped(line, then="    " * line.startswith(" ")) for line in lines)]
        for one in self.findings:
            head = f"{one.level:<{_MARGIN}}{one.title} [{one.code}]"
            blocks.append(f"{_wrapped(head, then=margin)}\n{_wrapped(one.detail, margin, margin)}")
        return "\n\n".join(blocks if self.findings else [*blocks, "Nothing found."]) + "\n"

    def _repr_html_(self) -> str:
        """Return a table for notebooks; every string from the data is escaped."""
        none = '<tr><td colspan="3">Nothing found.</td></tr>'
        rows = "".join(
            f"<tr><td>{escape(one.level)}</td><td><code>{escape(one.code)}</code></td>"
            f'<td style="text-align:left"><b>{escape(one.title)}</b><br>{escape(one.detail)}</td></tr>'
            for one in self.findings
        )
        caption = "<br>".join(escape(line) for line in _summary_lines(self.summary))
        return (
            f"<table><caption>{caption}</caption><thead><tr><th>level</th><th>code</th><th>what was seen</th></tr>"
            f"</thead><tbody>{rows or none}</tbody></table>"
        )


def _summary_lines(summary: Summary) -> list[str]:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.columns.items())
    columns = counted(sum(summary.columns.values()), "column")
    lines = [
        f"{counted(summary.rows, 'row')}, {columns} ({kinds}), {counted(summary.labels, 'label')}, "
        f"{counted(summary.tags_missing, 'row')} without a tag."
    ]
    if summary.label_counts:
        shown = ", ".join(f"{name} {count:,}" for name, count in summary.label_counts[:_MOST_LABELS])
        rest = len(summary.label_counts) - _MOST_LABELS
        lines.append(f"Labels: {shown}{f' and {rest:,} more' if rest > 0 else ''}.")
    lines += ["What fit makes of the columns:"] if summary.became else []
    lines += [f"  {name!r} {line}" for name, line in summary.became[:_MOST_COLUMNS]]
    rest = len(summary.became) - _MOST_COLUMNS
    return [*lines, f"  … and {rest:,} more."] if rest > 0 else lines


def _wrapped(text: str, first: str = "", then: str = "") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=then)


class Seen(NamedTuple):
    """What a check saw, not worded yet."""

    code: str
    about: list[str]
    values: dict[str, Any]
    level: Level | None


def seen(code: str, about: Iterable[object] = (), *, level: Level | None = None, **values: Any) -> Seen:
    """Note a finding: the names that it is about, values for its sentence, and a level if not the declared one."""
    return Seen(code, [name_of(name) for name in about], values, level)


def worded(found: Seen, interface: Interface) -> Finding:
    """Return the finding in words, with advice in the words of the interface."""
    declared, about = _DECLARED[found.code], found.about
    names = [*about[:_MOST_NAMES], *(["…"] if len(about) > _MOST_NAMES else [])]
    if interface == "python":
        option, columns = "{}={}", f"[{', '.join(json.dumps(name, ensure_ascii=False) for name in names)}]"
    else:
        option, columns = "--{} {}", shlex.quote(",".join(names))
    mean = "n_positives" if interface == "python" else "n-positives"
    detail = declared["detail"].format(
        n=len(about),
        names=listed(about),
        columns=f"{counted(len(about), 'column')} ({listed(about)})",
        drop=option.format("drop", columns),
        categories=option.format("categories", columns),
        separator=option.format("separator", '";"'),
        one_positive=option.format(mean, "1"),
        n_positives=option.format(mean, "M"),
        **found.values,
    )
    return Finding(found.level or declared["level"], found.code, declared["title"], detail, tuple(about))


def name_of(name: object) -> str:
    """Return a column's or label's name for a message: one line, not too long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split()) or repr(str(name))
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def listed(names: Iterable[object]) -> str:
    """Join names for a sentence, the first five of them."""
    shown = [name_of(name) for name in names]
    rest = len(shown) - _MOST_NAMES
    return ", ".join(shown) if rest <= 0 else f"{', '.join(shown[:_MOST_NAMES])} and {rest:,} more"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 row, 1,200 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

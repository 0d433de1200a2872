"""A diagnosis: a summary of the data and a list of findings. ``findings.toml`` has the words of each finding."""

import shlex
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

Level: TypeAlias = Literal["note", "warning", "error"]

#: From harmless to fatal.
LEVELS: tuple[Level, ...] = ("note", "warning", "error")
_LONGEST_NAME, _MOST_NAMES = 40, 5  # Letters of a name; names that a sentence or an option lists
_MOST_LABELS, _MOST_COLUMNS = 10, 20  # What the summary lists
_WIDTH, _MARGIN = 80, " " * len("warning  ")

_WORDS = tomllib.loads((files("onepos.doctor") / "findings.toml").read_text(encoding="utf-8"))
#: The title of each finding, by its code; ``docs/doctor.md`` has what to do about it.
CODES: Mapping[str, str] = MappingProxyType({code: words["title"] for code, words in _WORDS.items()})


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

    ``columns`` counts columns by kind, as in ``ColumnEncoder.kinds_``, or "other". ``tags_missing`` counts rows without
    an observed label. ``label_counts`` has the rows in which each label is observed, most frequent first. ``became``
    says what ``fit`` makes of each named column; those that it leaves out come first.
    """

    rows: int
    columns: dict[str, int]
    labels: int
    tags_missing: int
    label_counts: tuple[tuple[str, int], ...]
    became: tuple[tuple[str, str], ...] = ()

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.columns.items())
        size = f"{counted(self.rows, 'row')}, {counted(sum(self.columns.values()), 'column')} ({kinds})"
        lines = [f"{size}, {counted(self.labels, 'label')}, {counted(self.tags_missing, 'row')} without a tag."]
        if self.label_counts:
            labels = [f"{name} {count:,}" for name, count in self.label_counts]
            lines.append(f"Labels: {_first(labels, _MOST_LABELS)}.")
        if self.became:
            lines.append("What fit makes of the columns:")
            lines += [f"  {name!r} {words}" for name, words in self.became[:_MOST_COLUMNS]]
        more = len(self.became) - _MOST_COLUMNS
        return [*lines, f"  … and {more:,} more."] if more > 0 else lines


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
        lines = self.summary.lines()
        blocks = ["\n".join(_wrapped(line, then="    " * line.startswith(" ")) for line in lines)]
        for one in self.findings:
            head = f"{one.level:<{len(_MARGIN)}}{one.title} [{one.code}]"
            blocks.append(f"{_wrapped(head, then=_MARGIN)}\n{_wrapped(one.detail, _MARGIN, _MARGIN)}")
        return "\n\n".join(blocks if self.findings else [*blocks, "Nothing found."]) + "\n"

    def _repr_html_(self) -> str:
        """Return the text for notebooks, escaped."""
        return f"<pre>{escape(self.to_text())}</pre>"


def _wrapped(text: str, first: str = "", then: str = "") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=then)


def finding(code: str, about: Iterable[object] = (), *, level: Level | None = None, **values: Any) -> Finding:
    """Word a finding: the names that it is about, values for its sentence, and a level if not the declared one."""
    words, names = _WORDS[code], [name_of(name) for name in about]
    some = [*names[:_MOST_NAMES], *(["…"] if len(names) > _MOST_NAMES else [])]
    detail = words["detail"].format(
        n=len(names),
        names=listed(names),
        columns=f"{counted(len(names), 'column')} ({listed(names)})",
        option=shlex.quote(",".join(some)),
        **values,
    )
    return Finding(level or words["level"], code, words["title"], detail, tuple(names))


def name_of(name: object) -> str:
    """Return a column's or label's name for a message: one line, not too long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split()) or repr(str(name))
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def listed(names: Iterable[object]) -> str:
    """Join names for a sentence, the first five of them."""
    return _first([name_of(name) for name in names], _MOST_NAMES)


def _first(words: list[str], most: int) -> str:
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more:,} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 row, 1,200 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

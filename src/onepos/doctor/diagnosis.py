"""What a diagnosis is: a summary of the data and a list of findings, all plain values."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Level: TypeAlias = Literal["note", "warning", "error"]

#: From harmless to fatal.
LEVELS: tuple[Level, ...] = ("note", "warning", "error")

_LONGEST_NAME = 40


def name_of(name: object) -> str:
    r"""Return a column's or label's name for a message: one line, not too long.

    Examples
    --------
    >>> name_of("a\nb"), len(name_of("x" * 99))
    ('a b', 40)
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split()) or repr(str(name))
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


@dataclass(frozen=True)
class Finding:
    """One thing that was seen in the data.

    Attributes
    ----------
    level : {"note", "warning", "error"}
        A note is worth knowing; a warning is likely to hurt; with an error there is nothing sensible to fit.
    code : str
        Stable name of the check, listed in docs/doctor.md.
    title : str
        What the code means, in a few words.
    detail : str
        What was seen, with numbers, and what to do.
    about : tuple of str
        Names of the columns or labels concerned.
    """

    level: Level
    code: str
    title: str
    detail: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Summary:
    """The data in numbers.

    Attributes
    ----------
    rows : int
    columns : dict
        Kind of column ("numeric", "boolean", "categorical", "text", "datetime", "sparse", "other") → how many.
    labels : int
    tags_missing : int
        Rows without an observed label.
    label_counts : tuple of (name, count)
        Rows in which each label is observed, most frequent first.
    """

    rows: int
    columns: dict[str, int]
    labels: int
    tags_missing: int
    label_counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Diagnosis:
    """The result of :func:`onepos.doctor.diagnose`.

    Attributes
    ----------
    summary : Summary
    findings : tuple of Finding
        The most serious ones first.

    Examples
    --------
    >>> Diagnosis(Summary(2, {"numeric": 1}, 1, 0, (("beach", 2),)), ()).worst is None
    True
    """

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
        findings = [{**asdict(finding), "about": list(finding.about)} for finding in self.findings]
        return {"summary": summary, "worst": self.worst, "findings": findings}

    def to_text(self) -> str:
        """Plain text, at most 80 characters wide."""
        from onepos.doctor._render import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        from onepos.doctor._render import as_html

        return as_html(self)


def most_serious_first(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sort by level; within a level the order of the checks stays."""
    return tuple(sorted(findings, key=lambda finding: -LEVELS.index(finding.level)))


def count_kinds(kinds: list[str]) -> dict[str, int]:
    """Return how many columns there are of each kind, in the order in which the kinds occur."""
    return dict(Counter(kinds))


def repeated(names: list[Hashable]) -> list[Hashable]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]

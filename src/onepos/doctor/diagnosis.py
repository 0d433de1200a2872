"""What a diagnosis is: a summary of the data and a list of findings with advice, all plain values."""

import json
import shlex
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

Level: TypeAlias = Literal["note", "warning", "error"]
Interface: TypeAlias = Literal["python", "command line"]

#: From harmless to fatal.
LEVELS: tuple[Level, ...] = ("note", "warning", "error")

_LONGEST_NAME = 40
_WIDTH = 80
_MARGIN = 9  # "warning" and two blanks
_MOST_LABELS, _MOST_COLUMNS = 10, 20


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
        Kind of column, as in ``ColumnEncoder.kinds_``, or "sparse" or "other" → how many.
    labels : int
    tags_missing : int
        Rows without an observed label.
    label_counts : tuple of (name, count)
        Rows in which each label is observed, most frequent first.
    became : tuple of (name, line)
        What ``fit`` makes of each named column, in the words of ``fit``; those that it leaves out come first.
    """

    rows: int
    columns: dict[str, int]
    labels: int
    tags_missing: int
    label_counts: tuple[tuple[str, int], ...]
    became: tuple[tuple[str, str], ...] = ()


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
    >>> Diagnosis(Summary(2, {"number": 1}, 1, 0, (("beach", 2),)), ()).worst is None
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


#: What each finding is about, by its code; ``docs/doctor.md`` has what to do about it.
CODES: Mapping[str, str] = MappingProxyType(
    {
        "tags-none": "No row has a tag",
        "tags-one-label": "One label only",
        "tags-look-like-ids": "About as many labels as rows",
        "tag-missing": "Rows without a tag",
        "tag-blank": "Empty strings as tags",
        "tag-holds-several": "Tags that look like lists of tags",
        "tag-row-several": "Rows with more than one observed label",
        "tag-index-mismatch": "Tags and features have different row labels",
        "tag-unpredictable": "The features seem to say nothing about the tag",
        "label-never-observed": "Labels that are never observed",
        "label-rare": "Labels that are hardly ever observed",
        "label-dominant": "One label dominates",
        "label-spelling": "Labels that differ in case or blanks only",
        "label-only-in-test": "Labels that occur in the test rows only",
        "labels-exclusive": "The labels may exclude each other",
        "column-empty": "Columns without any value",
        "column-constant": "Columns with one value only",
        "column-mostly-missing": "Columns that are mostly missing",
        "column-duplicate": "Columns that repeat another one",
        "column-id": "Columns that look like identifiers",
        "column-number-as-text": "Numbers stored as text",
        "column-unsupported": "Columns of no usable type",
        "column-left-out": "Columns that fit leaves out",
        "column-leaks": "Columns that give the tag away",
        "column-named-like-label": "Columns named like a label",
        "column-split-mismatch": "Training and test rows have different columns",
        "scale-infinite": "Infinite values",
        "scale-spread": "Columns of very different scale",
        "scale-huge": "Very large values",
        "scale-heavy-tail": "Heavy tails",
        "scale-integer-codes": "Integers that may be codes of categories",
        "row-empty": "Rows without content",
        "row-duplicate": "Identical rows",
        "row-duplicate-disagrees": "Identical rows with different tags",
        "row-in-both-splits": "Rows that are in training and in test",
        "text-empty": "Texts that are nearly empty",
        "text-duplicate": "Texts that occur more than once",
        "text-in-both-splits": "Texts that are in training and in test",
        "cardinality-estimate": "How many labels a row may have",
    }
)


def finding(code: str, level: Level, detail: str, about: Iterable[object] = ()) -> Finding:
    """Make a finding with the title of its code; names of columns and labels become plain strings."""
    return Finding(level, code, CODES[code], detail, tuple(name_of(name) for name in about))


def listed(names: Iterable[object], most: int = 5) -> str:
    """Join names for a sentence, the first few of them.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = [name_of(name) for name in names]
    rest = len(shown) - most
    return ", ".join(shown) if rest <= 0 else f"{', '.join(shown[:most])} and {rest:,} more"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 row, 1,200 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    rest = len(summary.became) - _MOST_COLUMNS
    lines += ["What fit makes of the columns:"] if summary.became else []
    lines += [f"  {name!r} {line}" for name, line in summary.became[:_MOST_COLUMNS]]
    lines += [f"  … and {rest:,} more."] if rest > 0 else []
    return lines


def _wrapped(text: str, first: str = "", then: str = "") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=then)


#: Code → a sentence with a place for an option, the option's name, and its value; "": the columns found.
_ADVICE = {
    "column-empty": ("Drop it: {option}.", "drop", ""),
    "column-constant": ("Drop it: {option}.", "drop", ""),
    "column-duplicate": ("Drop the copies: {option}.", "drop", ""),
    "column-id": ("Drop it ({option}): a model can only learn the order of the rows from it.", "drop", ""),
    "column-leaks": ("Drop it ({option}), unless you are sure that it is there when you predict.", "drop", ""),
    "column-named-like-label": ("If so, drop it: {option}. If not, rename it.", "drop", ""),
    "scale-integer-codes": ("If so: {option}. If they count or rank something, leave them.", "categories", ""),
    "tag-holds-several": ("If a cell can hold several tags, say what separates them: {option}.", "separator", '";"'),
    "labels-exclusive": ("If they do exclude each other: {option}, or an ordinary classifier.", "n_positives", "1"),
    "cardinality-estimate": ("If you know the mean number of labels per row: {option}.", "n_positives", "M"),
}
#: Columns that an option names.
_MOST = 5


def with_advice(seen: Finding, interface: Interface) -> Finding:
    """Return the finding with what to do about it at the end of its detail.

    Examples
    --------
    >>> seen = Finding("warning", "column-constant", "Constant columns", "In 1 column: one value.", ("size",))
    >>> with_advice(seen, "python").detail
    'In 1 column: one value. Drop it: drop=["size"].'
    >>> with_advice(seen, "command line").detail
    'In 1 column: one value. Drop it: --drop size.'
    """
    if seen.code not in _ADVICE:
        return seen
    sentence, option, value = _ADVICE[seen.code]
    names = [*seen.about[:_MOST], *(["…"] if len(seen.about) > _MOST else [])]
    if interface == "python":
        quoted = ", ".join(json.dumps(name, ensure_ascii=False) for name in names)
        told = f"{option}={value or f'[{quoted}]'}"
    else:
        told = f"--{option.replace('_', '-')} {value or shlex.quote(','.join(names))}"
    return replace(seen, detail=f"{seen.detail} {sentence.format(option=told)}")

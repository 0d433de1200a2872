"""A diagnosis as plain text and as an HTML table."""

import textwrap
from html import escape

from onepos.doctor.codes import counted
from onepos.doctor.diagnosis import Diagnosis, Summary

_WIDTH = 80
_MARGIN = 9  # "warning" and two blanks
_MOST_LABELS = 10


def as_text(diagnosis: Diagnosis) -> str:
    """Write the summary, then each finding with its level in the margin."""
    blocks = ["\n".join(_wrapped(line, "") for line in _summary_lines(diagnosis.summary))]
    for finding in diagnosis.findings:
        head = f"{finding.level:<{_MARGIN}}{finding.title} [{finding.code}]"
        blocks.append(f"{_wrapped(head, ' ' * _MARGIN, first='')}\n{_wrapped(finding.detail, ' ' * _MARGIN)}")
    if not diagnosis.findings:
        blocks.append("Nothing found.")
    return "\n\n".join(blocks) + "\n"


def as_html(diagnosis: Diagnosis) -> str:
    """Write the same as one table; every string from the data is escaped."""
    rows = "".join(
        f"<tr><td>{escape(finding.level)}</td><td><code>{escape(finding.code)}</code></td>"
        f'<td style="text-align:left"><b>{escape(finding.title)}</b><br>{escape(finding.detail)}</td></tr>'
        for finding in diagnosis.findings
    )
    body = rows or '<tr><td colspan="3">Nothing found.</td></tr>'
    caption = "<br>".join(escape(line) for line in _summary_lines(diagnosis.summary))
    return (
        f"<table><caption>{caption}</caption><thead><tr><th>level</th><th>code</th><th>what was seen</th></tr></thead>"
        f"<tbody>{body}</tbody></table>"
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
    return lines


def _wrapped(text: str, indent: str, *, first: str | None = None) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent if first is None else first, subsequent_indent=indent, drop_whitespace=True
    )

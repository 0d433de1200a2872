"""What to do about a finding, in the words of the interface that asked: Python, or the command line."""

import json
import shlex
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from onepos.doctor.diagnosis import Finding

Interface: TypeAlias = Literal["python", "command line"]


class _Advice(NamedTuple):
    """A sentence with a place for an option, the option's name, and its value; None: the columns found."""

    sentence: str
    option: str
    value: str | None = None


_DROP = _Advice("Drop it: {option}.", "drop")
_ADVICE = {
    "column-empty": _DROP,
    "column-constant": _DROP,
    "column-duplicate": _Advice("Drop the copies: {option}.", "drop"),
    "column-id": _Advice("Drop it ({option}): a model can only learn the order of the rows from it.", "drop"),
    "column-leaks": _Advice("Drop it ({option}), unless you are sure that it is there when you predict.", "drop"),
    "column-named-like-label": _Advice("If so, drop it: {option}. If not, rename it.", "drop"),
    "column-text": _Advice("Name it as text, and its words are used: {option}.", "text"),
    "scale-integer-codes": _Advice("If so: {option}. If they count or rank something, leave them.", "categories"),
    "tag-holds-several": _Advice(
        "If a cell can hold several tags, say what separates them: {option}.", "separator", '";"'
    ),
    "labels-exclusive": _Advice(
        "If they do exclude each other: {option}, or an ordinary classifier.", "n_positives", "1"
    ),
    "cardinality-estimate": _Advice("If you know the mean number of labels per row: {option}.", "n_positives", "M"),
}
#: Columns that an option names.
_MOST = 5


def with_advice(finding: Finding, interface: Interface) -> Finding:
    """Return the finding with what to do about it at the end of its detail.

    Examples
    --------
    >>> seen = Finding("warning", "column-text", "Text that is not used as such", "In 1 column: prose.", ("caption",))
    >>> with_advice(seen, "python").detail
    'In 1 column: prose. Name it as text, and its words are used: text="caption".'
    >>> with_advice(seen, "command line").detail
    'In 1 column: prose. Name it as text, and its words are used: --text caption.'
    """
    advice = _ADVICE.get(finding.code)
    if advice is None:
        return finding
    names = [*finding.about[:_MOST], *(["…"] if len(finding.about) > _MOST else [])]
    option = (_python if interface == "python" else _shell)(advice, names)
    return replace(finding, detail=f"{finding.detail} {advice.sentence.format(option=option)}")


def _python(advice: _Advice, names: list[str]) -> str:
    quoted = [json.dumps(name, ensure_ascii=False) for name in names]
    value = quoted[0] if len(quoted) == 1 and advice.option == "text" else f"[{', '.join(quoted)}]"
    return f"{advice.option}={value if advice.value is None else advice.value}"


def _shell(advice: _Advice, names: list[str]) -> str:
    value = shlex.quote(",".join(names)) if advice.value is None else advice.value
    return f"--{advice.option.replace('_', '-')} {value}"

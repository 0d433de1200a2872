"""Generated blocks in a text written by hand: what is between two markers is replaced, all else is kept."""

import re
from collections.abc import Mapping
from itertools import zip_longest

_MARKER = re.compile(r"^<!-- (begin|end) (.+?) -->$", re.MULTILINE)


class MarkerError(ValueError):
    """The markers of a text are not those that its blocks need."""


def replace_blocks(text: str, blocks: Mapping[str, str], where: str) -> tuple[str, list[str]]:
    """Put each block between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.

    Parameters
    ----------
    text : str
    blocks : mapping of name to content
        The text must have each of them once, in any order, and no other.
    where : str
        What the text is called in an error.

    Returns
    -------
    tuple
        The new text, and the names of the blocks that changed.
    """
    _check(text, blocks, where)
    changed = []
    for name, content in blocks.items():
        new = replace_between(text, f"<!-- begin {name} -->", f"<!-- end {name} -->", content, where)
        if new != text:
            changed.append(name)
        text = new
    return text, changed


def replace_between(text: str, begin: str, end: str, content: str, where: str) -> str:
    """Put a content, with a line end before and after it, between two markers that the text has once each."""
    for marker in (begin, end):
        if text.count(marker) != 1:
            raise MarkerError(f"{where}: expected {marker} once; found it {text.count(marker)} times")
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise MarkerError(f"{where}: {end} stands before {begin}")
    return f"{before}{begin}\n{content.strip()}\n{end}{after}"


def _check(text: str, blocks: Mapping[str, str], where: str) -> None:
    found = [match.groups() for match in _MARKER.finditer(text)]
    expected = [(kind, name) for kind, name in found if kind == "begin" for kind in ("begin", "end")]
    if found != expected:
        wrong = next(one for one, other in zip_longest(found, expected) if one != other) or found[-1]
        raise MarkerError(f"{where}: each block begins and ends before the next; look at {' '.join(wrong)!r}")
    names = [name for _, name in found[::2]]
    if sorted(names) != sorted(blocks):
        strange, missing = sorted(set(names) - set(blocks)), sorted(set(blocks) - set(names))
        raise MarkerError(
            f"{where}: expected a marker for each block, once; unknown or twice: {', '.join(strange) or 'none'}; "
            f"missing: {', '.join(missing) or 'none'}"
        )

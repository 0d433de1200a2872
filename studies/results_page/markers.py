"""Generated blocks in a text written by hand: what is between two markers is replaced, all else is kept."""

import re
from collections.abc import Mapping

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
    opened: str | None = None
    begun = set()
    for marker in _MARKER.finditer(text):
        kind, name = marker.groups()
        line = f"{where}, line {text.count(chr(10), 0, marker.start()) + 1}"
        if name not in blocks:
            raise MarkerError(f"{line}: there is no block {name!r}; blocks are: {', '.join(blocks)}")
        if kind == "begin":
            if opened is not None:
                raise MarkerError(f"{line}: block {name!r} begins before {opened!r} ends")
            if name in begun:
                raise MarkerError(f"{line}: block {name!r} begins a second time")
            begun.add(name)
            opened = name
        else:
            if opened != name:
                raise MarkerError(f"{line}: block {name!r} ends, but the block that is open is {opened!r}")
            opened = None
    if opened is not None:
        raise MarkerError(f"{where}: block {opened!r} has no end")
    missing = [name for name in blocks if name not in begun]
    if missing:
        raise MarkerError(f"{where}: no markers for the blocks {', '.join(map(repr, missing))}")

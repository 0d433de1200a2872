"""Mulan's XML file, which names the labels of an ARFF file."""

from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from onepos.exceptions import DataFileError

_FORBIDDEN = (b"<!doctype", b"<!entity")


def read_label_names(path: Path) -> tuple[str, ...]:
    """Return the names of all ``<label>`` elements, nested ones too, in document order.

    A document type or an entity definition is refused before anything is parsed: a label file needs
    neither, and both are how a small XML file becomes gigabytes in memory or reads other files.

    Parameters
    ----------
    path : Path
        The XML file.
    """
    content = path.read_bytes()
    if b"\0" in content:
        # UTF-16 and UTF-32 would hide a document type from the search below; Mulan writes UTF-8.
        raise DataFileError(f"{path.name}: label files must be UTF-8 text; this one holds NUL bytes (UTF-16?).")
    lowered = content.lower()
    for word in _FORBIDDEN:
        if word in lowered:
            raise DataFileError(
                f"{path.name}: holds {word.decode().upper()}, which a Mulan label file never needs and which "
                "can be used for attacks. Remove it if you trust the file."
            )
    return _parse(content, path)


def _parse(content: bytes, path: Path) -> tuple[str, ...]:
    names: list[str] = []
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        local = tag.rpartition(":")[2]
        if depth == 0 and local != "labels":
            raise DataFileError(f"{path.name}: root element must be <labels>; got <{tag}>. Is it a Mulan file?")
        depth += 1
        if local == "label":
            if "name" not in attributes:
                line = parser.CurrentLineNumber
                raise DataFileError(f"{path.name}, line {line}: a <label> has no name attribute.")
            names.append(attributes["name"])

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> NoReturn:
        # The byte search misses a document type in an exotic single-byte encoding; the parser does not.
        raise DataFileError(f"{path.name}: holds a document type, which a Mulan label file never needs.")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError, UnicodeError) as error:
        # The message of an ExpatError ends with the line and column.
        raise DataFileError(f"{path.name}: not well-formed XML ({error}). Is the file complete?") from error
    if not names:
        raise DataFileError(f"{path.name}: names no label: at least one <label name=...> expected.")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataFileError(f"{path.name}: label names must be distinct; repeated: {twice[:5]}.")
    return tuple(names)

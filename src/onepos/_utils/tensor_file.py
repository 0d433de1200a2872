"""A safetensors file with a JSON header and a checksum, in which models and checkpoints are kept. It holds no code."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError

#: Levels of lists and objects in a header.
_DEEPEST = 32
_BLANK = b"0" * 32


def write_tensors(
    path: Path, save_file: Callable[..., Any], tensors: Mapping[str, Any], header: Mapping[str, Any]
) -> None:
    """Write a file; ``save_file`` is that of ``safetensors.numpy`` or ``safetensors.torch``."""
    try:
        save_file(tensors, path, metadata={"onepos": _BLANK.decode() + json.dumps(header)})
    except SafetensorError as error:
        if number := re.search(r"os error (\d+)", str(error)):  # a full disk, for instance
            raise OSError(int(number[1]), str(error)) from error
        raise
    with path.open("r+b") as file:
        seal(file)


def seal(file: BinaryIO) -> None:
    """Write the checksum of a file into it."""
    place, _, computed = _checksum(file)
    file.seek(place)
    file.write(computed)


def _checksum(file: BinaryIO) -> tuple[int, bytes, bytes]:
    """Return the place of the checksum, the checksum, and what it should be: a hash of all other bytes.

    This shows damage, but does not prove who wrote the file.
    """
    start = file.read(8)
    header = file.read(int.from_bytes(start, "little"))
    # It stands before the JSON, in one text with it: safetensors writes several texts in any order.
    stored = re.search(rb'"onepos": ?"([0-9a-f]{32})', header)
    if stored is None:
        raise ValueError("has no checksum, so it may be damaged")
    place, end = stored.span(1)
    state = hashlib.blake2b(start + header[:place] + _BLANK + header[end:], digest_size=16)
    while block := file.read(1 << 20):
        state.update(block)
    return len(start) + place, stored[1], state.hexdigest().encode()


@contextmanager
def opened(path: Path, what: str, version: int, framework: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the header and the opened file of ``what``, such as "onepos model"; ValueError if it is something else.

    The format's name is that of ``what``, and its number is ``version``.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework=framework) as file:
            header = _header(file.metadata() or {}, what)
            if header.get("format_version") != version or type(header["format_version"]) is not int:
                came = str(header.get("format_version"))[:80]
                raise ValueError(f"has format {came} of a {what}, and this version of onepos reads {version}")
            with path.open("rb") as content:
                _, stored, computed = _checksum(content)
            if stored != computed:
                raise ValueError("was changed or damaged after it was written: its checksum does not match")
            yield header, file
    except MemoryError as error:
        size = path.stat().st_size / 1e6
        raise ValueError(f"needs more memory than there is: it has {size:,.0f} MB") from error
    except (SafetensorError, OSError) as error:
        raise ValueError(f"is not a {what}, or is truncated or corrupt ({error})") from error


def _header(metadata: Mapping[str, str], what: str) -> dict[str, Any]:
    try:
        header = json.loads(metadata["onepos"][len(_BLANK) :])
        if not isinstance(header, dict) or header.get("format") != what or _too_deep(header):
            raise ValueError("the header is that of another program")
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"is a safetensors file, but not a {what}") from error
    return header


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        inner = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return False
    return True

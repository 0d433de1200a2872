"""Writing a file so that whoever opens it finds the old content or the whole new one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to; at the end it is flushed to disk and takes the place of ``path``.

    An error or a power cut on the way leaves what was there before.

    Parameters
    ----------
    path : Path
        Its folder must exist.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # elsewhere a folder cannot be opened to be flushed
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)  # the new name itself
        finally:
            os.close(handle)


def write_durably(path: Path, content: bytes) -> Path:
    """Replace a file, also across a crash or a power cut: written beside, flushed to disk, renamed.

    Parameters
    ----------
    path : Path
        Its folder must exist.
    content : bytes
    """
    with replaced_when_done(path) as part:
        part.write_bytes(content)
    return path

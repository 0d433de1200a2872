"""Writing a file so that whoever opens it finds the old content or the whole new one."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> Path:
    """Replace a file, also across a crash or a power cut: written beside, flushed to disk, renamed.

    Parameters
    ----------
    path : Path
        Its folder must exist.
    content : bytes
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
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
    return path

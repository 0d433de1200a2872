"""Writing a file so that whoever opens it finds the old content or the whole new one."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What the system says when there is no room, and what is to be done.
_ADVICE = {
    errno.ENOSPC: "no space is left on this disk; what was stored before is intact. Free some, then try again",
    errno.EDQUOT: "your quota on this disk is used up; what was stored before is intact. Free some, then try again",
    errno.EROFS: "this disk may only be read. Choose another place",
}


def is_full(error: OSError) -> bool:
    """Whether an error says that a disk has no room left, or the user none on it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Let errors of the body name the file that was to be written, and what to do; a failed write names none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, _ADVICE.get(error.errno, error.strerror), str(path)) from error


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to; at the end it is flushed to disk and takes the place of ``path``.

    An error or a power cut on the way leaves what was there before.

    Parameters
    ----------
    path : Path
        Its folder must exist.
    """
    # Neither threads nor processes, be they on two machines that share the disk, write to the same one.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    with explained(path):
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

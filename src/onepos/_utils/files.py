"""Writing a file so that whoever opens it finds the old content or the whole new one."""

import errno
import hashlib
import os
import re
import secrets
import socket
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from onepos._utils.machine import is_alive
from onepos.exceptions import DataFileError

#: Parts that this process writes to now, and folders in which it has looked for parts of processes that are gone.
_open_parts: set[str] = set()
_swept: set[Path] = set()
#: Name of a part: file, machine, process, random number.
_PART = re.compile(r"\..+\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{16}\.part")

#: Advice by the error of the system.
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
    """Add the file that was to be written, and what to do, to the errors of the body."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, _ADVICE.get(error.errno, error.strerror), str(path)) from error


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to; at the end it is flushed to disk and takes the place of ``path``.

    An error or a power cut on the way leaves what was there before. A killed process leaves its part, which the next
    process that writes to the folder removes. The folder must exist.
    """
    # No two threads or processes write to the same part, also on two machines that share the disk.
    part = path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(8)}.part")
    if path.parent.resolve() not in _swept:
        sweep(path.parent)
    with explained(path):
        _open_parts.add(part.name)
        try:
            yield part
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
            _open_parts.discard(part.name)
        if os.name == "posix":  # elsewhere a folder cannot be opened to be flushed
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)  # the new name itself
            finally:
                os.close(handle)


def sweep(folder: Path) -> list[Path]:
    """Remove the parts that killed processes of this machine left in a folder; return their paths."""
    _swept.add(folder.resolve())
    if os.name != "posix" or not folder.is_dir():
        return []
    gone = []
    for path in folder.glob(".*.part"):
        found = _PART.fullmatch(path.name)
        if found is None or found[1] != _machine() or path.name in _open_parts:
            continue
        # A part of this process id that is not open is of an earlier process with the same id.
        if int(found[2]) == os.getpid() or not is_alive(int(found[2])):
            path.unlink(missing_ok=True)
            gone.append(path)
    return gone


def _machine() -> str:
    """Return a short name of the machine, or of the container on it, whose process ids can be asked about."""
    place = Path("/proc/self/ns/pid")
    space = place.readlink() if place.exists() else ""
    return hashlib.sha256(f"{socket.gethostname()} {space}".encode()).hexdigest()[:8]


def write_durably(path: Path, content: bytes) -> Path:
    """Replace a file, also across a crash or a power cut: written beside, flushed to disk, renamed."""
    with replaced_when_done(path) as part:
        part.write_bytes(content)
    return path


def known_suffix(path: Path, suffixes: Collection[str]) -> str:
    """Return the suffix of a file in lower case; DataFileError unless it is one of ``suffixes``."""
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise DataFileError(
            f"cannot tell the format of {path.name!r} by suffix; expected one of {', '.join(suffixes)}."
        )
    return suffix


def existing(path: str | Path, suffixes: Collection[str]) -> Path:
    """Return the path of a file that is there and has one of these suffixes."""
    source = Path(path)
    known_suffix(source, suffixes)
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}. Check the path.")
    return source


def user_cache() -> Path:
    """Return the folder that ``pooch.os_cache("onepos")`` names, without pooch."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "onepos" / "onepos" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "onepos"
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or Path.home() / ".cache") / "onepos"


def is_writable(folder: Path) -> bool:
    """Whether files may be created below the folder, judged by its nearest existing ancestor."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    # The mode bits count even for a user who could override them: the owner of a protected folder wants it kept.
    return existing.is_dir() and bool(existing.stat().st_mode & 0o222) and os.access(existing, os.W_OK)


def sha256_of(path: Path) -> str:
    """Return the file's sha256 in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

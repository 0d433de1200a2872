"""Writing a file so that whoever opens it finds the old content or the whole new one."""

import errno
import hashlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onepos.exceptions import DataFileError

#: Seconds without a change after which the part of a file belongs to a process that is gone.
_ABANDONED_AFTER = 86_400.0

#: Advice by the error of the system.
_ADVICE = {
    errno.ENOSPC: "no space is left on this disk; what was stored before is intact. Free some, then try again",
    errno.EDQUOT: "your quota on this disk is used up; what was stored before is intact. Free some, then try again",
    errno.EROFS: "this disk may only be read. Choose another place",
}


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

    A symbolic link is followed. An existing file keeps its mode. A killed process leaves its part; who writes to the
    folder a day later removes it.
    """
    check_regular(path)
    target = Path(os.path.realpath(path))
    # No two threads or processes write to the same part, also on two machines that share the disk. A name has at most
    # 255 bytes.
    part = target.with_name(f".{target.name[:40]}.onepos-{secrets.token_hex(8)}.part")
    with explained(path):
        _remove_old_parts(target.parent)
        try:
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
            if mode is not None:
                part.touch(0o600)  # nobody reads in the part what the file hides
            yield part
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            if mode is not None:
                part.chmod(mode)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        if os.name == "posix":  # elsewhere a folder cannot be opened to be flushed
            handle = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(handle)  # the new name itself
            finally:
                os.close(handle)


def check_regular(path: Path) -> None:
    """Raise if something stands at ``path`` that cannot be replaced by a file: a folder, a device, a pipe."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe, which a file would replace"
        raise DataFileError(f"{path} is {what}; name a file.")


def _remove_old_parts(folder: Path) -> None:
    """Remove the parts that killed processes left in a folder."""
    for part in folder.glob(".*.onepos-*.part"):
        with suppress(FileNotFoundError):  # another process may do the same
            if time.time() - part.stat().st_mtime > _ABANDONED_AFTER:
                part.unlink()


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

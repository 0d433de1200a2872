"""The folder that holds data files: where it is, whether it may be written, whether a file is intact."""

import hashlib
import os
import stat
import sys
from pathlib import Path, PurePosixPath

from onepos.datasets._sources import RemoteFile
from onepos.exceptions import ChecksumError

#: Files already verified in this process: path → (size, mtime in ns, sha256).
_verified: dict[Path, tuple[int, int, str]] = {}


def data_folder(data_home: str | Path | None = None) -> Path:
    """Return the cache folder: the argument, else ``$ONEPOS_DATA``, else the user's cache.

    The user's cache is the folder that ``pooch.os_cache("onepos")`` names; it is worked out here so that
    files already present load without pooch. The folder need not exist.

    Parameters
    ----------
    data_home : path, optional
    """
    chosen = data_home if data_home is not None else os.environ.get("ONEPOS_DATA") or None
    return Path(chosen).expanduser() if chosen is not None else _user_cache()


def _user_cache() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "onepos" / "onepos" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "onepos"
    xdg = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(xdg) if xdg else Path.home() / ".cache") / "onepos"


def locate(home: Path, file: str) -> Path:
    """Return the place of a file below the folder; a name that leads out of it is refused.

    Parameters
    ----------
    home : Path
    file : str
        Relative, with ``/``, as in the registry.
    """
    relative = PurePosixPath(file)
    if relative.is_absolute() or ".." in relative.parts or "\\" in file or ":" in file or not relative.parts:
        raise ValueError(f"a data file's name must be relative and stay inside the data folder; got {file!r}.")
    path = home.joinpath(*relative.parts)
    # Links inside the folder may lead anywhere in it; the folder itself may be a link.
    if not path.resolve().is_relative_to(home.resolve()):
        raise ValueError(f"{file}: a link leads out of the data folder {home}, to {path.resolve()}. Remove it.")
    return path


def is_writable(folder: Path) -> bool:
    """Whether files may be created below the folder, judged by its nearest existing ancestor.

    The mode bits count even for a user who could override them: whoever took the write permission
    from a data folder wants it left as it is.
    """
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    mode = existing.stat().st_mode
    write_bits = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
    return existing.is_dir() and bool(mode & write_bits) and os.access(existing, os.W_OK)


def sha256_of(path: Path) -> str:
    """Return the file's sha256 in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_intact(path: Path, file: RemoteFile) -> None:
    """Raise ChecksumError unless the file is what the registry describes.

    A file is hashed once per process, and again when its size or modification time has changed.

    Parameters
    ----------
    path : Path
        The file in the cache folder.
    file : RemoteFile
        What it should be.
    """
    status = path.stat()
    seen = _verified.get(path)
    if seen == (status.st_size, status.st_mtime_ns, file.sha256):
        return
    found = sha256_of(path)
    if found != file.sha256:
        raise ChecksumError(
            f"{path} is not the file that the registry describes: sha256 {file.sha256} and {file.bytes} "
            f"bytes expected; got {found} and {status.st_size} bytes. Delete it, or fetch it again with "
            "fetch_dataset(name, force=True)."
        )
    _verified[path] = (status.st_size, status.st_mtime_ns, found)

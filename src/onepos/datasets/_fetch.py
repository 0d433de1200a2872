"""Bring the files of a data set into the cache folder: mirrors, checksums, no half-written file."""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from onepos._utils.files import is_full
from onepos._utils.optional import require
from onepos.datasets._cache import check_intact, data_folder, is_writable, locate
from onepos.datasets._catalogue import get_entry
from onepos.datasets._sources import DataSetEntry, RemoteFile
from onepos.exceptions import ChecksumError, DownloadError

# Download one URL into a file, continuing where an earlier attempt stopped.


TIMEOUT = 30.0  # seconds without a byte; a stalled server must not hang a fit or a test forever
_CHUNK = 1 << 16
_ATTEMPTS = 4
_CONTENT_RANGE = re.compile(r"bytes (\d+)-")


class Progress(Protocol):
    """What the downloader tells: how many bytes of the file are there."""

    def __call__(self, done: int, /) -> None:
        """Take the number of bytes so far."""


class OversizeError(DownloadError):
    """The server sends more bytes than the file has: it is another file."""


class NoRoomError(DownloadError):
    """The disk is full: no other source would help."""


def download(url: str, part: Path, size: int, progress: Progress, *, timeout: float = TIMEOUT) -> None:
    """Fill ``part`` up to ``size`` bytes from ``url``; on failure what has come stays in ``part``.

    A broken connection is taken up again, as long as each attempt brings something.

    Parameters
    ----------
    url : str
        http or https.
    part : Path
        The partial file; its present bytes are kept if the server supports ranges.
    size : int
        Expected number of bytes.
    progress : callable
        Called with the number of bytes so far.
    timeout : float, default=30
        Seconds to wait for the connection and for each block.

    Raises
    ------
    DownloadError
        The server cannot be reached, refuses, or stops early (OversizeError: sends too much; NoRoomError: the disk is
        full).
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url}: only http and https addresses are fetched.")
    for attempt in range(_ATTEMPTS):
        before = _size(part)
        if before == size:
            progress(size)
            return
        try:
            _attempt(url, part, size, progress, timeout)
        except OversizeError:
            raise
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, OSError) and is_full(error):
                raise NoRoomError(
                    f"no space is left in {part.parent} for {part.stem} ({size:,} bytes, of which {_size(part):,} have "
                    "come). Free some, or set ONEPOS_DATA (or data_home=) to a folder with room; then fetch it again, "
                    "which goes on where this stopped."
                ) from error
            problem = _describe(error)
        else:
            if _size(part) == size:
                return
            problem = f"the connection ended after {_size(part)} of {size} bytes"
        if _size(part) <= before or attempt == _ATTEMPTS - 1:
            raise DownloadError(f"{url}: {problem}.")


def _attempt(url: str, part: Path, size: int, progress: Progress, timeout: float) -> None:
    start = _size(part)
    if start > size:
        part.unlink()
        start = 0
    headers = {"User-Agent": "onepos", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = urlopen(Request(url, headers=headers), timeout=timeout)  # scheme was checked by download()
    except HTTPError as error:
        if error.code == 416 and start:  # the range is not there: what we have is of another file
            part.unlink()
        raise
    with response:
        done = start if _continues(response, start) else 0
        with part.open("r+b" if done else "wb") as stream:
            stream.seek(done)
            stream.truncate()
            while block := response.read(_CHUNK):
                done += len(block)
                if done > size:
                    raise OversizeError(f"{url}: more than the expected {size} bytes come; it is another file.")
                stream.write(block)
                progress(done)
            stream.flush()
            os.fsync(stream.fileno())


def _continues(response: Any, start: int) -> bool:
    """Whether the server sends the rest (206 from our position on) and not the whole file again."""
    found = _CONTENT_RANGE.match(response.headers.get("Content-Range") or "")
    return bool(start and response.status == 206 and found and int(found[1]) == start)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _describe(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"the server answers {error.code} {error.reason}"
    return f"{type(error).__name__}: {error}"


# A progress bar for downloads, on standard error.


@contextmanager
def progress_bar(label: str, total: int, shown: bool) -> Iterator[Progress]:
    """Yield a function that takes the number of bytes so far.

    Shown when asked for, when rich is installed, and when standard error is a terminal (or
    ``FORCE_COLOR`` says to treat it as one): a log file is no place for a bar.

    Parameters
    ----------
    label : str
    total : int
        Bytes of the whole file.
    shown : bool
    """
    if not shown or not (sys.stderr.isatty() or os.environ.get("FORCE_COLOR")):
        yield lambda done, /: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        yield lambda done, /: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, /: bar.update(task, completed=done)


def fetch_dataset(
    name: str,
    *,
    data_home: str | Path | None = None,
    offline: bool | None = None,
    progress: bool = False,
    force: bool = False,
) -> list[Path]:
    """Make sure that a data set's files are in the cache folder, each with its sha256.

    Parameters
    ----------
    name : str
        A name from ``list_datasets()``.
    data_home : path, optional
        Cache folder; default ``$ONEPOS_DATA``, else the user's cache. A read-only folder is never written.
    offline : bool, optional
        Never download; default: whether ``$ONEPOS_OFFLINE`` is set to something other than 0.
    progress : bool, default=False
        Show a progress bar on standard error, if that is a terminal.
    force : bool, default=False
        Download even what is there; the old file is replaced only by an intact new one.

    Returns
    -------
    list of Path
        The files, in the registry's order.

    Raises
    ------
    DownloadError
        A file is missing and no source could be reached, or offline mode forbids trying.
    ChecksumError
        A cached file, or every copy that could be downloaded, is not what the registry describes.
    """
    entry = get_entry(name)
    home = data_folder(data_home)
    if entry.supplied:
        return [find_supplied(entry, home)]
    return [
        _fetch(file, entry, home, offline=is_offline(offline), progress=progress, force=force) for file in entry.files
    ]


def find_supplied(entry: DataSetEntry, home: Path) -> Path:
    """Return the user's own copy of a data set that has no public file."""
    for file in entry.supplied:
        path = locate(home, file)
        if path.is_file():
            return path
    raise DownloadError(
        f"{entry.name} has no public direct source. {entry.obtain} Put it into {home} as {' or '.join(entry.supplied)}."
    )


def is_offline(offline: bool | None) -> bool:
    """Whether downloads are forbidden: the argument, else ``$ONEPOS_OFFLINE``."""
    if offline is not None:
        return offline
    return os.environ.get("ONEPOS_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def _fetch(file: RemoteFile, entry: DataSetEntry, home: Path, *, offline: bool, progress: bool, force: bool) -> Path:
    path = locate(home, file.file)
    if path.is_file() and not force:
        check_intact(path, file)
        return path
    if offline:
        raise DownloadError(
            f"{file.file} would have to be downloaded into {home}, and offline mode forbids it. "
            "Unset ONEPOS_OFFLINE (or pass offline=False), or put the file there."
        )
    urls = _urls(file)
    if not urls:
        raise DownloadError(
            f"{file.file} is not in {home} and has no public source. {entry.obtain} Put it there, "
            "or name a mirror that has it in ONEPOS_MIRRORS."
        )
    if not is_writable(path.parent):
        raise DownloadError(
            f"{file.file} is not in {home}, and that folder is read-only. Set ONEPOS_DATA (or data_home=) "
            "to a folder that may be written."
        )
    pooch = require("pooch", extra="data", purpose="downloading data sets")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        if not path.is_file() or force:  # another process may have brought it while this one waited
            _try_all(pooch, urls, path, file, progress)
    check_intact(path, file)
    return path


def _urls(file: RemoteFile) -> list[str]:
    bases = [base.strip().rstrip("/") for base in os.environ.get("ONEPOS_MIRRORS", "").split(",")]
    return [f"{base}/{quote(file.file)}" for base in bases if base] + list(file.urls)


def _try_all(pooch: Any, urls: list[str], path: Path, file: RemoteFile, progress: bool) -> None:
    part = path.with_name(path.name + ".part")
    problems: list[str] = []
    tampered = False
    for url in urls:
        # Bytes kept from an earlier attempt may be of another source: if the sum of both is wrong, this
        # source gets a whole attempt of its own.
        for _ in range(2 if part.exists() else 1):
            try:
                _retrieve(pooch, url, path, part, file, progress)
            except NoRoomError:
                raise
            except DownloadError as error:
                problems.append(str(error))
                break
            except ChecksumError as error:
                problems.append(str(error))
                tampered = True
            else:
                return
    kind = ChecksumError if tampered else DownloadError
    advice = "Try again later, or name another source in ONEPOS_MIRRORS."
    raise kind(f"{file.file} could not be fetched. " + " ".join(problems) + " " + advice)


def _retrieve(pooch: Any, url: str, path: Path, part: Path, file: RemoteFile, progress: bool) -> None:
    """Let pooch check the hash and move the file to its name in one step; the bytes come through ``part``."""

    def transfer(source: str, output: str | Path, _: Any) -> None:
        with progress_bar(file.file, file.bytes, progress) as report:
            download(source, part, file.bytes, report)
        part.replace(output)

    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(
                url,
                known_hash=f"sha256:{file.sha256}",
                fname=path.name,
                path=path.parent,
                downloader=transfer,
            )
    except OversizeError as error:
        part.unlink(missing_ok=True)
        raise ChecksumError(str(error)) from error
    except DownloadError:
        raise
    except ValueError as error:
        raise ChecksumError(f"{url}: the sha256 is not {file.sha256}: it is another file.") from error


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch's announcements, which would end up between a command's messages."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time download into a folder: two would write the same partial file.

    The folder itself is locked, so no lock file is left behind, and the lock ends with the process.
    Windows has no such lock; there, two simultaneous downloads end in a checksum error at worst.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

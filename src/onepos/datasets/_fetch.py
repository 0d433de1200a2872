"""Bring the files of a data set into the cache folder: mirrors, checksums, no half-written file."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from onepos._utils.files import is_full
from onepos._utils.optional import require
from onepos.datasets._cache import check_intact, data_folder, is_writable, locate
from onepos.datasets._catalogue import get_entry
from onepos.datasets._sources import DataSetEntry, RemoteFile
from onepos.exceptions import ChecksumError, DownloadError

TIMEOUT = 30.0  # seconds without a byte; a stalled server must not hang a fit or a test forever
_CHUNK = 1 << 16


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
        Replace a file that is not intact; the old one stays until an intact new one is there.

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
        return [_find_supplied(entry, home)]
    if offline is None:
        offline = os.environ.get("ONEPOS_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")
    return [_fetch(file, entry, home, offline=offline, progress=progress, force=force) for file in entry.files]


def _find_supplied(entry: DataSetEntry, home: Path) -> Path:
    """Return the user's own copy of a data set that has no public file."""
    for file in entry.supplied:
        path = locate(home, file)
        if path.is_file():
            return path
    raise DownloadError(
        f"{entry.name} has no public direct source. {entry.obtain} Put it into {home} as {' or '.join(entry.supplied)}."
    )


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
    problems: list[DownloadError | ChecksumError] = []
    for url in urls:
        try:
            _retrieve(url, path, file, progress)
        except NoRoomError:
            raise  # no other source would help
        except (DownloadError, ChecksumError) as error:
            problems.append(error)
        else:
            check_intact(path, file)
            return path
    kind = ChecksumError if any(isinstance(problem, ChecksumError) for problem in problems) else DownloadError
    said = " ".join(map(str, problems))
    raise kind(
        f"{file.file} could not be fetched. {said} Try again later, or name another source in ONEPOS_MIRRORS."
    ) from problems[-1]


def _urls(file: RemoteFile) -> list[str]:
    bases = [base.strip().rstrip("/") for base in os.environ.get("ONEPOS_MIRRORS", "").split(",")]
    return [f"{base}/{quote(file.file)}" for base in bases if base] + list(file.urls)


def _retrieve(url: str, path: Path, file: RemoteFile, progress: bool) -> None:
    """Let pooch download beside ``path``, check the hash and move the file to its name in one step."""
    pooch = require("pooch", extra="data", purpose="downloading data sets")
    responses: list[Any] = []
    try:
        with _quiet(pooch.get_logger()), _bar(file.file, file.bytes, progress) as show:
            pooch.retrieve(
                url,
                known_hash=f"sha256:{file.sha256}",
                fname=path.name,
                path=path.parent,
                downloader=pooch.HTTPDownloader(
                    progressbar=_Meter(file.bytes, show),
                    chunk_size=_CHUNK,
                    timeout=TIMEOUT,
                    headers={"User-Agent": "onepos", "Accept-Encoding": "identity"},
                    hooks={"response": lambda response, **_: responses.append(response)},
                ),
            )
    except OSError as error:  # also those of requests
        if is_full(error):
            raise NoRoomError(
                f"no space is left in {path.parent} for {file.file} ({file.bytes:,} bytes). Free some, or set "
                "ONEPOS_DATA (or data_home=) to a folder with room; then fetch it again."
            ) from error
        response = getattr(error, "response", None)
        said = f"{type(error).__name__}: {error}"
        if response is not None:
            said = f"the server answers {response.status_code} {response.reason}"
        raise DownloadError(f"{url}: {said}.") from error
    except (ValueError, _TooLongError) as error:
        raise ChecksumError(f"{url}: the sha256 is not {file.sha256}: it is another file.") from error
    finally:
        for response in responses:  # pooch leaves them open
            response.close()


class NoRoomError(DownloadError):
    """The disk is full."""


class _TooLongError(Exception):
    """More bytes come than the file has."""


class _Meter:
    """What pooch tells about a download: shows it, and ends it when more bytes come than the file has."""

    def __init__(self, size: int, show: Callable[[int], None]) -> None:
        self.size, self.show, self.done = size, show, 0
        self.total = 0  # set by pooch

    def update(self, count: int) -> None:
        """Add bytes; pooch counts the last block as a full one."""
        self.done += count
        if self.done >= self.size + 2 * _CHUNK:
            raise _TooLongError
        self.show(min(self.done, self.size))

    def reset(self) -> None:
        """Begin again."""
        self.done = 0

    def close(self) -> None:
        """End; the bar closes itself."""


@contextmanager
def _bar(label: str, size: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows the bytes so far, if standard error is a terminal or FORCE_COLOR is set."""
    if not shown or not (sys.stderr.isatty() or os.environ.get("FORCE_COLOR")):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=size)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch's announcements, which would end up between a command's messages."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)

"""Download one URL into a file, continuing where an earlier attempt stopped."""

import os
import re
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from onepos._files import is_full
from onepos.exceptions import DownloadError

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

"""The folder that holds data files, and the downloads into it: mirrors, checksums, no half-written file."""

import errno
import os
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from onepos._utils.files import is_writable, sha256_of, user_cache
from onepos_studies.datasets._catalogue import DataSetEntry, RemoteFile, get_entry
from onepos_studies.exceptions import ChecksumError, DownloadError

TIMEOUT = 30.0  # seconds without a byte; a stalled server must not hang a fit or a test forever


def fetch_dataset(
    name: str,
    *,
    data_home: str | Path | None = None,
    offline: bool | None = None,
    progress: bool = False,
    force: bool = False,
) -> list[Path]:
    """Make sure that a data set's files are in the cache folder, each with its sha256; return them in their order.

    Parameters
    ----------
    name : str
        A name from ``list_datasets()``.
    data_home : path, optional
        Cache folder; default ``$ONEPOS_DATA``, else the user's cache. A read-only folder is never written.
    offline : bool, optional
        Never download; default: whether ``$ONEPOS_OFFLINE`` is set to something other than 0.
    progress : bool
        Name each file on standard error before it is downloaded.
    force : bool
        Replace a file that is not intact; the old one stays until an intact new one is there.

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
        found = [locate(home, file) for file in entry.supplied if locate(home, file).is_file()]
        if not found:
            raise DownloadError(
                f"{entry.name} has no public direct source. {entry.obtain} Put it into {home} as "
                f"{' or '.join(entry.supplied)}."
            )
        return found[:1]
    if offline is None:
        offline = os.environ.get("ONEPOS_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")
    return [_fetch(file, entry, home, offline=offline, progress=progress, force=force) for file in entry.files]


def data_folder(data_home: str | Path | None = None) -> Path:
    """Return the cache folder: the argument, else ``$ONEPOS_DATA``, else the user's cache. It need not exist."""
    chosen = data_home if data_home is not None else os.environ.get("ONEPOS_DATA") or None
    return user_cache() if chosen is None else Path(chosen).expanduser()


def is_available(entry: DataSetEntry, home: Path) -> bool:
    """Return whether the files of a data set are in the folder."""
    here = [locate(home, file).is_file() for file in entry.supplied or [file.file for file in entry.files]]
    return any(here) if entry.supplied else all(here)


def locate(home: Path, file: str) -> Path:
    """Return the place below the folder of a file of the registry; a name that leads out of it is refused."""
    relative = PurePosixPath(file)
    if relative.is_absolute() or ".." in relative.parts or "\\" in file or ":" in file or not relative.parts:
        raise ValueError(f"a data file's name must be relative and stay inside the data folder; got {file!r}.")
    path = home.joinpath(*relative.parts)
    # Links inside the folder may lead anywhere in it; the folder itself may be a link.
    if not path.resolve().is_relative_to(home.resolve()):
        raise ValueError(f"{file}: a link leads out of the data folder {home}, to {path.resolve()}. Remove it.")
    return path


def check_intact(path: Path, file: RemoteFile) -> None:
    """Raise ChecksumError unless the file is what the registry describes."""
    found = sha256_of(path)
    if found != file.sha256:
        raise ChecksumError(
            f"{path} is not the file that the registry describes: sha256 {file.sha256} and {file.bytes} "
            f"bytes expected; got {found} and {path.stat().st_size} bytes. Delete it, or fetch it again with "
            "fetch_dataset(name, force=True)."
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
            return path
        except NoRoomError:
            raise  # no other source would help
        except (DownloadError, ChecksumError) as error:
            problems.append(error)
    kind = ChecksumError if any(isinstance(problem, ChecksumError) for problem in problems) else DownloadError
    raise kind(
        f"{file.file} could not be fetched. {' '.join(map(str, problems))} Try again later, or name another source in "
        "ONEPOS_MIRRORS."
    ) from problems[-1]


def _urls(file: RemoteFile) -> list[str]:
    bases = [base.strip().rstrip("/") for base in os.environ.get("ONEPOS_MIRRORS", "").split(",")]
    return [*(f"{base}/{quote(file.file)}" for base in bases if base), *file.urls]


def _retrieve(url: str, path: Path, file: RemoteFile, progress: bool) -> None:
    """Download beside ``path``, check the hash and move the file to its name in one step."""
    import pooch  # not at the top: files that are here load without it

    responses: list[Any] = []

    def remember(response: Any, **_: Any) -> None:
        responses.append(response)  # pooch leaves it open

    pooch.get_logger().setLevel("INFO" if progress else "WARNING")
    headers = {"User-Agent": "onepos", "Accept-Encoding": "identity"}
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT, headers=headers, hooks={"response": remember})
    try:
        pooch.retrieve(url, f"sha256:{file.sha256}", path.name, path.parent, downloader=downloader)
    except OSError as error:  # also those of requests
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoomError(
                f"no space is left in {path.parent} for {file.file} ({file.bytes:,} bytes). Free some, or set "
                "ONEPOS_DATA (or data_home=) to a folder with room; then fetch it again."
            ) from error
        raise DownloadError(f"{url}: {type(error).__name__}: {error}.") from error
    except ValueError as error:
        raise ChecksumError(f"{url}: the sha256 is not {file.sha256}: it is another file.") from error
    finally:
        for response in responses:
            response.close()


class NoRoomError(DownloadError):
    """The disk is full."""

"""The folder that holds data files, and the downloads into it: several sources, checksums, no half-written file."""

import errno
import os
from pathlib import Path
from typing import Any

from onepos._utils.files import explained, is_writable, sha256_of, user_cache
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
        present = [home / file for file in entry.supplied if (home / file).is_file()]
        if not present:
            raise DownloadError(
                f"{entry.name} has no public direct source. {entry.obtain} Put it into {home} as "
                f"{' or '.join(entry.supplied)}."
            )
        return present[:1]
    if offline is None:
        offline = os.environ.get("ONEPOS_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")
    paths = [home / file.file for file in entry.files]
    for path, file in zip(paths, entry.files, strict=True):
        if force or not path.is_file():
            _download(file, path, "" if file.urls else entry.obtain, offline, progress)
        elif (checksum := sha256_of(path)) != file.sha256:
            raise ChecksumError(
                f"{path} is not the file that the registry describes: sha256 {file.sha256} and {file.bytes} bytes "
                f"expected; got {checksum} and {path.stat().st_size} bytes. Delete it, or fetch it again with "
                "fetch_dataset(name, force=True)."
            )
    return paths


def data_folder(data_home: str | Path | None = None) -> Path:
    """Return the cache folder: the argument, else ``$ONEPOS_DATA``, else the user's cache. It need not exist."""
    chosen = data_home if data_home is not None else os.environ.get("ONEPOS_DATA") or None
    return user_cache() if chosen is None else Path(chosen).expanduser()


def is_available(entry: DataSetEntry, home: Path) -> bool:
    """Return whether the files of a data set are in the folder."""
    here = [(home / file).is_file() for file in entry.supplied or [file.file for file in entry.files]]
    return any(here) if entry.supplied else all(here)


def _download(file: RemoteFile, path: Path, obtain: str, offline: bool, progress: bool) -> None:
    """Fetch a file from the first source that has it."""
    where = f"{file.file} is not in {path.parent}"
    if offline:
        raise DownloadError(
            f"{where} and would have to be downloaded, which offline mode forbids. Unset ONEPOS_OFFLINE (or pass "
            "offline=False), or put the file there."
        )
    if not file.urls:
        raise DownloadError(f"{where} and has no public source. {obtain} Put it there.")
    if not is_writable(path.parent):
        raise DownloadError(
            f"{where}, and that folder is read-only. Set ONEPOS_DATA (or data_home=) to a folder that may be written."
        )
    problems: list[str] = []
    tampered = False
    for url in file.urls:
        try:
            _retrieve(url, path, file.sha256, progress)
            return
        except OSError as error:  # also those of requests
            if error.errno in (errno.ENOSPC, errno.EDQUOT):  # no other source would help
                with explained(path):
                    raise
            problems.append(f"{url}: {type(error).__name__}: {error}.")
        except ValueError:
            tampered = True
            problems.append(f"{url}: the sha256 is not {file.sha256}: it is another file.")
    kind = ChecksumError if tampered else DownloadError
    raise kind(f"{file.file} could not be fetched. {' '.join(problems)} Try again later.")


def _retrieve(url: str, path: Path, sha256: str, progress: bool) -> None:
    """Download beside ``path``, check the hash and move the file to its name in one step."""
    import pooch  # not at the top: files that are here load without it

    responses: list[Any] = []

    def remember(response: Any, **_: Any) -> None:
        responses.append(response)  # pooch leaves it open

    pooch.get_logger().setLevel("INFO" if progress else "WARNING")
    headers = {"User-Agent": "onepos", "Accept-Encoding": "identity"}
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT, headers=headers, hooks={"response": remember})
    try:
        pooch.retrieve(url, f"sha256:{sha256}", path.name, path.parent, downloader=downloader)
    finally:
        for response in responses:
            response.close()

"""What the registry knows about a data set, and where its files are (files.csv)."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

_RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set, pinned to a commit and a checksum.

    Attributes
    ----------
    file : str
        Path below the cache folder and below a mirror, with ``/``.
    bytes : int
        Size; a download that grows beyond it is cut off.
    sha256 : str
    repository, commit, path : str or None
        Where GitHub keeps it; None for a file without a public source.
    mirrors : tuple of str
        Further complete URLs, tried after the repository.
    """

    file: str
    bytes: int
    sha256: str
    repository: str | None = None
    commit: str | None = None
    path: str | None = None
    mirrors: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """Complete URLs in the order in which they are tried."""
        if self.repository is None or self.commit is None or self.path is None:
            return self.mirrors
        return (f"{_RAW}/{self.repository}/{self.commit}/{quote(self.path)}", *self.mirrors)


@dataclass(frozen=True)
class DataSetEntry:
    """One data set: its facts, its files and how to read them.

    Attributes
    ----------
    name : str
    instances, features, labels : int
        Rows (with or without a label), feature columns, label columns.
    cardinality : float
        Mean number of labels per row, over all rows.
    feature_sum : float or None
        Sum of all feature values, to tell this data set from another of the same shape.
    rows_without_label : int
        Rows that carry no label; ``load_dataset`` drops them.
    matches_paper : bool
        Whether this is the paper's data set, so that results may be compared with it.
    files : tuple of RemoteFile
        Data files, stacked in this order, and perhaps an XML file that names the labels.
    options : mapping
        Arguments of the reader.
    sparse : bool
        Whether features come as CSR: at most one entry in ten is not zero.
    supplied : tuple of str
        For a data set without a public file: names under which a user's copy is found, the first wins.
    obtain : str
        For such a data set: where to get it.
    note, citation, licence : str
    """

    name: str
    instances: int
    features: int
    labels: int
    cardinality: float
    feature_sum: float | None = None
    rows_without_label: int = 0
    matches_paper: bool = True
    files: tuple[RemoteFile, ...] = ()
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    sparse: bool = False
    supplied: tuple[str, ...] = ()
    obtain: str = ""
    note: str = ""
    citation: str = ""
    licence: str = "no explicit licence at the source; cite the reference"


def _read_sources() -> dict[str, tuple[RemoteFile, ...]]:
    sources: dict[str, tuple[RemoteFile, ...]] = {}
    table = Path(__file__).with_name("files.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(table.splitlines()):
        repository, commit, path = (row[column] or None for column in ("repository", "commit", "path"))
        file = RemoteFile(row["file"], int(row["bytes"]), row["sha256"], repository, commit, path)
        sources[row["dataset"]] = (*sources.get(row["dataset"], ()), file)
    return sources


#: Data set → its files; several data files are stacked in this order.
SOURCES = _read_sources()

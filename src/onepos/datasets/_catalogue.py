"""The registry of data sets: what is known about each, where its files are, and how to read them (catalogue.toml)."""

import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote


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
        raw = f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{quote(self.path)}"
        return (raw, *self.mirrors)


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
    options : dict
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
    options: dict[str, Any] = field(default_factory=dict)
    sparse: bool = False
    supplied: tuple[str, ...] = ()
    obtain: str = ""
    note: str = ""
    citation: str = ""
    licence: str = "no explicit licence at the source; cite the reference"


def _read_catalogue() -> dict[str, DataSetEntry]:
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    entries = {}
    for facts in tomllib.loads(text)["dataset"]:
        lists = {
            "files": tuple(RemoteFile(**file) for file in facts.get("files", ())),
            "supplied": tuple(facts.get("supplied", ())),
        }
        entries[facts["name"]] = DataSetEntry(**facts | lists)
    return entries


REGISTRY = _read_catalogue()


def get_entry(name: str) -> DataSetEntry:
    """Return the entry of a data set, the name in any case; an unknown name lists the known ones."""
    found = next((entry for key, entry in REGISTRY.items() if key.lower() == str(name).lower()), None)
    if found is None:
        raise ValueError(f"no data set is called {name!r}; known: {', '.join(REGISTRY)}.")
    return found


def dataset_info(name: str) -> dict[str, Any]:
    """Return what the registry knows of a data set as plain values: size, files, sources, citation, licence note.

    The name is taken in any case; the entry ``"name"`` has the registry's spelling.

    Examples
    --------
    >>> from onepos.datasets import dataset_info
    >>> dataset_info("cal500")["name"], dataset_info("cal500")["labels"]
    ('CAL500', 174)
    """
    entry = get_entry(name)
    facts = asdict(entry)
    facts["supplied"] = list(entry.supplied)
    facts["files"] = [asdict(file) | {"urls": list(file.urls)} for file in entry.files]
    return facts

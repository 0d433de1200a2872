"""The registry of data sets: what is known about each, where its files are, and how to read them (catalogue.toml)."""

import tomllib
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set, pinned to a commit and a checksum."""

    file: str  # path below the cache folder, with "/"
    bytes: int  # a download that grows beyond this size is cut off
    sha256: str
    # Where GitHub keeps it; None for a file without a public source.
    repository: str | None = None
    commit: str | None = None
    path: str | None = None
    mirrors: tuple[str, ...] = ()  # complete URLs, tried after the repository

    @property
    def urls(self) -> tuple[str, ...]:
        """Complete URLs in the order in which they are tried."""
        if self.repository is None or self.commit is None or self.path is None:
            return self.mirrors
        raw = f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{quote(self.path)}"
        return (raw, *self.mirrors)


@dataclass(frozen=True)
class DataSetEntry:
    """One data set: its facts, its files and how to read them."""

    name: str
    instances: int  # rows, with or without a label
    features: int
    labels: int
    cardinality: float  # mean number of labels per row, over all rows
    feature_sum: float | None = None  # sum of all feature values: another data set of the same shape has another one
    rows_without_label: int = 0  # ``load_dataset`` drops them
    matches_paper: bool = True  # whether results may be compared with the paper's
    files: tuple[RemoteFile, ...] = ()  # data files, stacked in this order, and perhaps an XML file that names labels
    options: dict[str, Any] = field(default_factory=dict)  # arguments of the reader
    sparse: bool = False  # whether features come as CSR: at most one entry in ten is not zero
    # For a data set without a public file: names under which a user's copy is found (the first wins), and its source.
    supplied: tuple[str, ...] = ()
    obtain: str = ""
    note: str = ""
    citation: str = ""
    licence: str = "no explicit licence at the source; cite the reference"


@cache
def registry() -> dict[str, DataSetEntry]:
    """Return the entries by name, in the order of catalogue.toml."""
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    entries = {}
    for facts in tomllib.loads(text)["dataset"]:
        lists = {
            "files": tuple(RemoteFile(**file) for file in facts.get("files", ())),
            "supplied": tuple(facts.get("supplied", ())),
        }
        entries[facts["name"]] = DataSetEntry(**facts | lists)
    return entries


def get_entry(name: str) -> DataSetEntry:
    """Return the entry of a data set, the name in any case; an unknown name lists the known ones."""
    found = next((entry for key, entry in registry().items() if key.lower() == str(name).lower()), None)
    if found is None:
        raise ValueError(f"no data set is called {name!r}; known: {', '.join(registry())}.")
    return found


def dataset_info(name: str) -> dict[str, Any]:
    """Return what the registry knows of a data set as plain values: size, files, sources, citation, licence note.

    The name is taken in any case; the entry ``"name"`` has the registry's spelling.

    >>> dataset_info("cal500")["name"], dataset_info("cal500")["labels"]
    ('CAL500', 174)
    """
    entry = get_entry(name)
    facts = asdict(entry)
    facts["supplied"] = list(entry.supplied)
    facts["files"] = [asdict(file) | {"urls": list(file.urls)} for file in entry.files]
    return facts

"""Every format that onepos reads: small valid files to damage, and all the ways in which a file is read."""

import io
import json
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "helpers"))

from forged_models import Model, forge, load_seeds, open_forged, read_model, write_model

X = np.array([[0.5, 1.0, 0.0], [2.0, -1.5, 3.0], [0.0, 0.25, 1e-3], [4.0, 0.0, 1.0]])
Y = np.array([[1, 0], [0, 1], [1, 1], [0, 1]], dtype=np.uint8)


def _as_it_is(content: bytes) -> bytes:
    return content


@dataclass(frozen=True)
class Seed:
    """A valid file.

    Attributes
    ----------
    content : bytes
        The part that is damaged.
    wrap : callable
        Makes the file of that part: so damage gets behind a compression or a checksum.
    """

    content: bytes
    wrap: Callable[[bytes], bytes] = _as_it_is


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes
    ----------
    file_name : str
    seeds : valid files
    read : callable
        Reads a file in all the ways in which it is read.
    beside : names and contents of files that stand beside it
    make : callable, optional
        Returns what was changed, and a changed file; without it the bytes of seeds are damaged.
    seconds, memory : float, int
        Work that a file may take, and bytes.
    """

    file_name: str
    seeds: tuple[Seed, ...]
    read: Callable[[Path], object]
    beside: tuple[tuple[str, bytes], ...] = ()
    make: Callable[[random.Random], tuple[str, bytes]] | None = None
    seconds: float = 5.0
    memory: int = 1 << 30


def _read_table(path: Path) -> None:
    """Both ways to a table: whole, and piece by piece."""
    from onepos.exceptions import DataFileError
    from onepos.table import read_chunks, read_table

    refusals = []
    for attempt in (
        lambda: read_table(path, words=["word"], plain=["tag"]),
        lambda: list(read_chunks(path, plain=["tag"], rows=2)),
    ):
        try:
            attempt()
        except DataFileError as error:
            refusals.append(error)
    if len(refusals) == 2:
        raise refusals[0]


def _read_decisions(path: Path) -> object:
    from onepos.pages.decisions import read_decisions
    from onepos.table.tags import apply_decisions

    indicator = pd.DataFrame(Y, columns=["sea", "sun"])
    return apply_decisions(indicator, pd.Index(["07", "a b", "c", "4"]), read_decisions(path))


def _read_model(path: Path) -> None:
    """Open a model; one that opens must also predict, or say why it cannot."""
    import onepos

    model = onepos.load(path)
    frame = pd.DataFrame({"a": [0.5, 1.0], "b": ["x", "y"]})
    try:
        probabilities = model.predict_proba(frame if hasattr(model, "estimator_") else X)
    except ValueError as error:
        if not str(error):
            raise
    else:
        assert probabilities.shape[0] in (2, 4)


_CSV = b'''id,tag,a,b,word,p,q
1,sea,0.5,1,"x, y",1,0
2,sun,,2,"a ""b""",0,1
3,sea,-1e3,NA,z,1,1
'''
_DECISIONS = b"""id,label,decision
07,sea,accept
"a b",sun,reject
c,sea,reject
"""


def _parquet(**options: object) -> bytes:
    frame = pd.read_csv(io.BytesIO(_CSV))
    stream = io.BytesIO()
    frame.to_parquet(stream, **options)
    return stream.getvalue()


def _model_files() -> tuple[Seed, ...]:
    """A network, a classical method and a model of tables: whole files, and headers behind a right length."""
    import tempfile

    import onepos
    from onepos.table import TableModel

    rows, complete = np.tile(X, (5, 1)), np.tile(Y, (5, 1))
    observed = np.tile(np.array([[1, 0], [0, 1]]), (10, 1))
    frame = pd.DataFrame({"a": [0.5, 2.0, 1.0, 0.0] * 5, "b": ["x", "y"] * 10, "tag": ["sea", "sun"] * 10})
    smile = onepos.SMILEClassifier(network=(3,), max_epochs=1, n_neighbors=2, random_state=0)
    softmax = onepos.make_classifier("softmax", network=(), learning_rate=0.1, max_epochs=30, random_state=0)
    models = [
        smile.fit(rows, observed),
        softmax.fit(rows, observed).calibrate(rows, complete).choose_thresholds(rows, n_positives=1.5),
        onepos.make_classifier("forest", n_trees=2, random_state=0).fit(rows, observed),
        TableModel(method="wan", params={"network": (3,), "max_epochs": 1}, random_state=0).fit(frame, label="tag"),
    ]
    seeds = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            content = model.save(Path(folder) / "model.onepos").read_bytes()
            seeds += [Seed(content), Seed(_header(content), _behind_header(content))]
    return tuple(seeds)


def _header(content: bytes) -> bytes:
    """Return the JSON of a model's header."""
    return json.dumps(read_model(content).header).encode()


def _behind_header(content: bytes) -> Callable[[bytes], bytes]:
    """Return how a damaged header becomes a file, with the right checksum if it is JSON still."""
    arrays = read_model(content).arrays

    def wrap(header: bytes) -> bytes:
        text = header.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()
        try:
            return write_model(Model(json.loads(text), arrays))
        except (ValueError, RecursionError):
            return write_model(Model(text, arrays))

    return wrap


def _forged() -> Format:
    folder = os.environ.get("ONEPOS_FORGED_SEEDS")
    seeds = load_seeds(None if folder is None else Path(folder))
    return Format(
        "forged.onepos",
        tuple(Seed(content) for content in seeds.values()),
        open_forged,
        make=lambda rng: forge(seeds, rng),
        seconds=2.0,
        memory=500 << 20,
    )


def all_formats() -> dict[str, Callable[[], Format]]:
    """Return how to make each format's seeds, by name; models take a second to train, so only on demand.

    The formats of onepos-studies are there if it is installed.
    """
    formats: dict[str, Callable[[], Format]] = {
        "csv": lambda: Format("seed.csv", (Seed(_CSV),), _read_table),
        "tsv": lambda: Format("seed.tsv", (Seed(_CSV.replace(b",", b"\t")),), _read_table),
        "parquet": lambda: Format(
            "seed.parquet",
            (Seed(_parquet()), Seed(_parquet(compression=None)), Seed(_parquet(compression="gzip"))),
            _read_table,
        ),
        "model": lambda: Format("seed.onepos", _model_files(), _read_model),
        "forged": _forged,
        "decisions": lambda: Format("seed.csv", (Seed(_DECISIONS),), _read_decisions),
    }
    if find_spec("onepos_studies") is not None:
        from study_formats import study_formats

        formats |= study_formats()
    return formats

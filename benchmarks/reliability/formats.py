"""Every format that onepos reads: small valid files to damage, and all the ways in which a file is read."""

import io
import json
import os
import random
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import io as scipy_io
from scipy import sparse

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "helpers"))

from forged_models import Model, forge, load_seeds, open_forged, read_model, write_model

_X = np.array([[0.5, 1.0, 0.0], [2.0, -1.5, 3.0], [0.0, 0.25, 1e-3], [4.0, 0.0, 1.0]])
_Y = np.array([[1, 0], [0, 1], [1, 1], [0, 1]], dtype=np.uint8)


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


def _read_matrix(path: Path) -> object:
    from onepos_studies.datasets import read

    return read(path)


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


def _read_labels(path: Path) -> object:
    from onepos_studies.datasets._arff import read_label_names

    return read_label_names(path)


def _read_study(path: Path) -> object:
    from onepos_studies.study import cells_of, read_study

    study, _ = read_study(path)
    return study.content_hash, cells_of(study)


def _read_decisions(path: Path) -> object:
    from onepos.pages.review import read_decisions
    from onepos.table.tags import apply_decisions

    indicator = pd.DataFrame(_Y, columns=["sea", "sun"])
    return apply_decisions(indicator, pd.Index(["07", "a b", "c", "4"]), read_decisions(path))


def _read_model(path: Path) -> None:
    """Open a model; one that opens must also predict, or say why it cannot."""
    import onepos

    model = onepos.load(path)
    frame = pd.DataFrame({"a": [0.5, 1.0], "b": ["x", "y"]})
    try:
        probabilities = model.predict_proba(frame if hasattr(model, "estimator_") else _X)
    except ValueError as error:
        if not str(error):
            raise
    else:
        assert probabilities.shape[0] in (2, 4)


_DENSE = b"""% a comment
@relation 'seed: -C -2'
@attribute height numeric
@attribute 'the colour' {red, 'light blue', "dark"}
@attribute flag {0,1}
@attribute sea {0,1}
@attribute sun {0,1}
@data
1.5,red,0,1,0
?,'light blue',1,0,1
-2e3,"dark",?,1,1
"""
_PLAIN = b"""@relation plain
@attribute a numeric
@attribute b real
@attribute sea {0,1}
@attribute sun {0,1}
@data
1.5,2,1,0
?,1e-3,0,1
"""
_SPARSE = b"""@relation sparse
@attribute a numeric
@attribute b {x,y,z}
@attribute c numeric
@attribute sea {0,1}
@attribute sun {0,1}
@data
{0 1.5, 1 y, 3 1}
{2 -7, 4 1}
{ }
{1 z,3 1,4 1}
"""
_XML = b"""<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="sea"><label name="sun"></label></label>
<!-- a comment --><label name='the &amp; &#228;nd'/>
</labels>
"""
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
_STUDY = b"""[study]
name = "tiny"
description = "a study"
trials = 2
seed = 3
fractions = [0.8, 0.1, 0.1]
positive_rule = "uniform"
rules = ["clean"]
metric = "average_precision"
[[data]]
sets = ["digit-scenes"]
train_fractions = [0.5, 1.0]
fixed = { max_epochs = 3 }
[common]
max_epochs = 4
[common.grid]
learning_rate = [1e-3, 1e-2]
[tuning]
when = "first-trial"
keep = 2
keep_each = ["learning_rate"]
[record]
test_curve = ["smile"]
[[method]]
key = "smile"
name = "SMILE"
fixed = { n_neighbors = 5 }
grid = { network = [[8], [16]] }
per_dataset = { digit-scenes = { batch_size = 16 } }
[[method]]
key = "frequency"
"""


def _npz(**arrays: object) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _npz_around(name: str, **others: object) -> Callable[[bytes], bytes]:
    """Put an array file into an archive whose checksums are right."""

    def wrap(content: bytes) -> bytes:
        stream = io.BytesIO(_npz(**others))
        with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{name}.npy", content)
        return stream.getvalue()

    return wrap


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _mat(*, compressed: bool, **variables: object) -> bytes:
    stream = io.BytesIO()
    scipy_io.savemat(stream, variables, do_compression=compressed)
    return stream.getvalue()


def _mat_compressed(content: bytes) -> bytes:
    """Compress a file's elements as one, behind the header."""
    packed = zlib.compress(content[128:])
    return content[:128].ljust(128, b"\0") + struct.pack("<II", 15, len(packed)) + packed


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

    X, complete = np.tile(_X, (5, 1)), np.tile(_Y, (5, 1))
    observed = np.tile(np.array([[1, 0], [0, 1]]), (10, 1))
    frame = pd.DataFrame({"a": [0.5, 2.0, 1.0, 0.0] * 5, "b": ["x", "y"] * 10, "tag": ["sea", "sun"] * 10})
    smile = onepos.SMILEClassifier(network=(3,), max_epochs=1, n_neighbors=2, random_state=0)
    softmax = onepos.make_classifier("softmax", network=(), learning_rate=0.1, max_epochs=30, random_state=0)
    models = [
        smile.fit(X, observed),
        softmax.fit(X, observed).calibrate(X, complete).choose_thresholds(X, n_positives=1.5),
        onepos.make_classifier("mlml", instance_smoothness=1.0).fit(X, observed),
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
    """Return how to make each format's seeds, by name; models take a second to train, so only on demand."""
    csr = sparse.csr_array(_X)
    parts = {"X_data": csr.data, "X_indices": csr.indices, "X_indptr": csr.indptr, "X_shape": np.array(csr.shape)}
    names = np.array(["sea", "sun"])
    return {
        "arff": lambda: Format(
            "seed.arff", (Seed(_DENSE), Seed(_PLAIN), Seed(_SPARSE)), _read_matrix, (("seed.xml", _LABELS),)
        ),
        "xml": lambda: Format("seed.xml", (Seed(_XML), Seed(_LABELS)), _read_labels),
        "mat": lambda: Format(
            "seed.mat",
            (
                Seed(_mat(compressed=False, X=_X, Y=_Y)),
                Seed(_mat(compressed=False, X=sparse.csc_array(_X), Y=sparse.csc_array(_Y.astype(float)))),
                Seed(_mat(compressed=True, train_data=_X, train_target=_Y.T, test_data=_X, test_target=_Y.T)),
                Seed(_mat(compressed=False, X=_X), _mat_compressed),
            ),
            _read_matrix,
        ),
        "csv": lambda: Format("seed.csv", (Seed(_CSV),), _read_table),
        "tsv": lambda: Format("seed.tsv", (Seed(_CSV.replace(b",", b"\t")),), _read_table),
        "parquet": lambda: Format(
            "seed.parquet",
            (Seed(_parquet()), Seed(_parquet(compression=None)), Seed(_parquet(compression="gzip"))),
            _read_table,
        ),
        "npz": lambda: Format(
            "seed.npz",
            (
                Seed(_npz(X=_X, Y=_Y, label_names=names)),
                Seed(_npy(_X), _npz_around("X", Y=_Y)),
                Seed(_npy(_Y), _npz_around("Y", X=_X)),
                Seed(_npy(names), _npz_around("label_names", X=_X, Y=_Y)),
                *(
                    Seed(_npy(parts[name]), _npz_around(name, Y=_Y, **{k: v for k, v in parts.items() if k != name}))
                    for name in parts
                ),
            ),
            _read_matrix,
        ),
        "model": lambda: Format("seed.onepos", _model_files(), _read_model),
        "forged": _forged,
        "study": lambda: Format("seed.toml", (Seed(_STUDY),), _read_study),
        "decisions": lambda: Format("seed.csv", (Seed(_DECISIONS),), _read_decisions),
    }


_LABELS = b'<labels xmlns="http://mulan.sourceforge.net/labels"><label name="sea"/><label name="sun"/></labels>'

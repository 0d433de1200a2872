"""The formats that onepos-studies reads: benchmark sets and study files; ``formats.py`` has the library's."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from formats import Format, Seed, X, Y
from scipy import io as scipy_io
from scipy import sparse


def _read_matrix(path: Path) -> object:
    from onepos_studies.datasets import read

    return read(path)


def _read_labels(path: Path) -> object:
    from onepos_studies.datasets._arff import read_label_names

    return read_label_names(path)


def _read_study(path: Path) -> object:
    from onepos_studies.study import cells_of, read_study

    study, _ = read_study(path)
    return study.content_hash, cells_of(study)


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
XML = b"""<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="sea"><label name="sun"></label></label>
<!-- a comment --><label name='the &amp; &#228;nd'/>
</labels>
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


_LABELS = b'<labels xmlns="http://mulan.sourceforge.net/labels"><label name="sea"/><label name="sun"/></labels>'


def study_formats() -> dict[str, Callable[[], Format]]:
    """Return how to make each format's seeds, by name."""
    csr = sparse.csr_array(X)
    parts = {"X_data": csr.data, "X_indices": csr.indices, "X_indptr": csr.indptr, "X_shape": np.array(csr.shape)}
    names = np.array(["sea", "sun"])
    return {
        "arff": lambda: Format(
            "seed.arff", (Seed(_DENSE), Seed(_PLAIN), Seed(_SPARSE)), _read_matrix, (("seed.xml", _LABELS),)
        ),
        "xml": lambda: Format("seed.xml", (Seed(XML), Seed(_LABELS)), _read_labels),
        "mat": lambda: Format(
            "seed.mat",
            (
                Seed(_mat(compressed=False, X=X, Y=Y)),
                Seed(_mat(compressed=False, X=sparse.csc_array(X), Y=sparse.csc_array(Y.astype(float)))),
                Seed(_mat(compressed=True, train_data=X, train_target=Y.T, test_data=X, test_target=Y.T)),
                Seed(_mat(compressed=False, X=X), _mat_compressed),
            ),
            _read_matrix,
        ),
        "npz": lambda: Format(
            "seed.npz",
            (
                Seed(_npz(X=X, Y=Y, label_names=names)),
                Seed(_npy(X), _npz_around("X", Y=Y)),
                Seed(_npy(Y), _npz_around("Y", X=X)),
                Seed(_npy(names), _npz_around("label_names", X=X, Y=Y)),
                *(
                    Seed(_npy(parts[name]), _npz_around(name, Y=Y, **{k: v for k, v in parts.items() if k != name}))
                    for name in parts
                ),
            ),
            _read_matrix,
        ),
        "study": lambda: Format("seed.toml", (Seed(_STUDY),), _read_study),
    }

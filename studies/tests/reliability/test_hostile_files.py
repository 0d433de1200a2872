"""Benchmark files and studies made to harm: each is refused with a plain message, or harmless."""

import io
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pytest

from onepos.exceptions import DataFileError
from onepos_studies.datasets import read
from onepos_studies.datasets._arff import read_label_names
from onepos_studies.exceptions import StudyError
from onepos_studies.study import parse_study

ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 10}">' for n in range(10))


@pytest.mark.parametrize(
    "content",
    [
        f"<!DOCTYPE labels [{ENTITIES}]><labels><label name='&e9;'/></labels>".encode(),
        b"<!DOCTYPE labels [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><labels><label name='&x;'/></labels>",
        b"<!dOcTyPe labels [<!entity % p SYSTEM 'file:///etc/passwd'> %p;]><labels/>",
        f"<!DOCTYPE labels [{ENTITIES}]><labels><label name='&e9;'/></labels>".encode("utf-16"),
        b"<?xml version='1.0' encoding='cp037'?>".decode().encode("cp037") + "<!DOCTYPE x []><labels/>".encode("cp037"),
    ],
    ids=["billion laughs", "local file", "parameter entity", "utf-16", "ebcdic"],
)
def test_xml_with_entities(tmp_path, content):
    path = tmp_path / "labels.xml"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"labels\.xml"):
        read_label_names(path)


def test_xml_as_deep_as_the_file_is_long(tmp_path):
    path = tmp_path / "labels.xml"
    path.write_bytes(b"<labels>" + b"<label name='a'>" * 100_000)
    with pytest.raises(DataFileError, match="not well-formed"):
        read_label_names(path)


def _zeros_npy(n_bytes):
    """The pieces of an array file of so many zeros."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1, n_bytes)})
    yield header.getvalue()
    for _ in range(n_bytes >> 20):
        yield b"\0" * (1 << 20)


def test_an_archive_that_unpacks_to_more_than_its_size_makes_plausible(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("Y.npy", b"".join(_zeros_npy(0)))
        with archive.open("X.npy", "w") as member:
            for piece in _zeros_npy(300 << 20):
                member.write(piece)
    assert path.stat().st_size < 3 << 20
    with pytest.raises(DataFileError, match="looks like an attack"):
        read(path)


def test_an_archive_that_announces_a_shape_it_does_not_hold(tmp_path):
    path = tmp_path / "absurd.npz"
    header = io.BytesIO()
    shape = (1 << 40, 1 << 10)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", header.getvalue() + b"\0" * 100)
        archive.writestr("Y.npy", header.getvalue())
    with pytest.raises(DataFileError, match="not a readable"):
        read(path)


def test_a_member_that_is_no_array(tmp_path):
    path = tmp_path / "bytes.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", b"not an array")
        archive.writestr("Y.npy", b"nor this")
    with pytest.raises(DataFileError, match="X is no array"):
        read(path)


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return (open, (self.trace, "w"))


def test_object_arrays_and_pickles_are_not_unpickled(tmp_path):
    trace = tmp_path / "trace"
    bomb = np.array([[Bomb(trace)]], dtype=object)
    np.savez(tmp_path / "objects.npz", X=bomb, Y=np.ones((1, 1)))
    np.savez(tmp_path / "names.npz", X=np.ones((1, 1)), Y=np.ones((1, 1)), label_names=bomb[0])
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb(trace)))
    with zipfile.ZipFile(tmp_path / "member.npz", "w") as archive:
        archive.writestr("X.npy", pickle.dumps(Bomb(trace)))
        archive.writestr("Y", pickle.dumps(Bomb(trace)))
    for path in tmp_path.glob("*.npz"):
        with pytest.raises(DataFileError, match="free of pickled objects"):
            read(path)
    for name in ("m.mat", "a.arff"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb(trace)))
        with pytest.raises(DataFileError):
            read(tmp_path / name)
    assert not trace.exists()


def test_members_of_an_archive_are_never_written_to_disk(tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    path = folder / "traversal.npz"
    np.savez(path, X=np.ones((2, 1)), Y=np.ones((2, 1)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../evil.npy", b"x")
        archive.writestr("/tmp/evil.npy", b"x")
    assert read(path).X.shape == (2, 1)
    assert [entry.name for entry in tmp_path.rglob("*")] == ["inner", "traversal.npz"]


def _mat_element(kind, content):
    return struct.pack("<II", kind, len(content)) + content + b"\0" * (-len(content) % 8)


def _mat(*elements):
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"".join(elements)


def test_a_matlab_element_that_inflates_without_end(tmp_path):
    path = tmp_path / "bomb.mat"
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(300)) + packer.flush()
    path.write_bytes(_mat(struct.pack("<II", 15, len(packed)) + packed))
    with pytest.raises(DataFileError, match="looks like an attack"):
        read(path)


@pytest.mark.parametrize("shape", [(2**31 - 1, 2), (2, 2**31 - 1), (2**30, 2**30)])
@pytest.mark.parametrize("kind", [5, 6], ids=["sparse", "dense"])
def test_a_matlab_matrix_of_absurd_shape(tmp_path, shape, kind):
    path = tmp_path / "absurd.mat"
    matrices = []
    for name in (b"X", b"Y"):
        starts = _mat_element(5, struct.pack("<iii", 0, 1, 1)) if kind == 5 else b""
        parts = [
            _mat_element(6, struct.pack("<II", kind, 1)),
            _mat_element(5, struct.pack("<ii", *shape)),
            _mat_element(1, name),
            _mat_element(5, struct.pack("<i", 0)) if kind == 5 else b"",
            starts,
            _mat_element(9, struct.pack("<d", 1.0)),
        ]
        matrices.append(_mat_element(14, b"".join(parts)))
    path.write_bytes(_mat(*matrices))
    with pytest.raises(DataFileError, match=r"do not fill|plausible|lacks its column starts"):
        read(path)


@pytest.mark.parametrize("index", ["99999999999999999999", "9" * 5000])
@pytest.mark.parametrize("value", ["1", "'1'"])
def test_a_sparse_arff_index_beyond_any_integer(tmp_path, index, value):
    path = tmp_path / "wide.arff"
    path.write_text(f"@relation r\n@attribute a numeric\n@attribute s {{0,1}}\n@data\n{{0 1, {index} {value}}}\n")
    with pytest.raises(DataFileError, match="line 5"):
        read(path, labels=1)


def test_arff_with_an_absurd_number_of_labels(tmp_path):
    path = tmp_path / "c.arff"
    path.write_text(f"@relation 'r -C {'9' * 5000}'\n@attribute a numeric\n@attribute s {{0,1}}\n@data\n1,1\n")
    with pytest.raises(DataFileError, match="nothing says which attributes are the labels"):
        read(path)


STUDY = '[study]\nname = "s"\ntrials = 1\n{head}\n[[data]]\nsets = {sets}\n[[method]]\nkey = "an"\n{method}\n'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": 'fractions = ["a", "b", "c"]'}, "study.fractions.0: Input should be a valid number"),
        ({"head": "fractions = [nan, 0.5, 0.5]"}, "study.fractions.0: "),
        ({"head": "fractions = [[1], [1], [1]]"}, "study.fractions.0: "),
        ({"head": 'rules = ["clean", "clean"]'}, "must be distinct"),
        ({"head": "seed = " + "9" * 5000}, "not valid TOML"),
        ({"head": f"seed = {2**70}"}, "study.seed: Input should be less than"),
        ({"sets": "[1]"}, "data.0.sets.0: Input should be a valid string"),
        ({"sets": "[[1]]"}, "data.0.sets.0: "),
        ({"method": "per_dataset = { a = 1 }"}, "method.0.per_dataset.a: "),
        ({"method": "fixed = { batch_size = 1979-05-27 }"}, "Object of type date is not JSON serializable"),
        ({"method": "fixed = { batch_size = " + "[" * 5000 + "]" * 5000 + " }"}, "not valid TOML"),
        ({"method": "[tuning]\nkeep_each = [[1]]"}, "tuning.keep_each.0: "),
        ({"method": "[record]\ntest_curve = [1]"}, "record.test_curve.0: "),
    ],
)
def test_study_values_of_the_wrong_kind(change, message):
    with pytest.raises(StudyError, match=message):
        parse_study(STUDY.format(**{"head": "", "sets": '["digit-scenes"]', "method": ""} | change))


def test_a_slip_of_the_finger_does_not_plan_a_billion_cells():
    with pytest.raises(StudyError, match="trials: Input should be less than or equal to 10000; got 1000000000"):
        parse_study(STUDY.replace("trials = 1", "trials = 1_000_000_000").format(head="", sets="[]", method=""))

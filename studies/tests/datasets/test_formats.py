"""MATLAB and npz readers, each against another implementation or by hand."""

import numpy as np
import pytest
from scipy import sparse
from scipy.io import loadmat, savemat

from onepos.exceptions import DataFileError
from onepos_studies.datasets import read
from onepos_studies.datasets._catalogue import registry


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return rng.random((7, 4)).astype(np.float32), (rng.random((7, 3)) < 0.5).astype(np.uint8)


# --- MATLAB ---------------------------------------------------------------------------------------


def test_dense_matrices(tmp_path, arrays):
    X, Y = arrays
    savemat(tmp_path / "m.mat", {"X": X, "Y": Y, "filename": "x.arff"})
    table = read(tmp_path / "m.mat")
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.Y, Y)
    assert table.X.dtype == np.float32
    assert table.feature_names == ("feature0", "feature1", "feature2", "feature3")


def test_parts_are_stacked_and_sparse_stays_sparse(tmp_path, arrays):
    X, Y = arrays
    parts = {"X": X[:4], "Xt": X[4:], "Y": Y[:4], "Yt": Y[4:]}
    savemat(tmp_path / "m.mat", {key: sparse.csc_matrix(value.astype(float)) for key, value in parts.items()})
    table = read(tmp_path / "m.mat", features=["X", "Xt"], labels=["Y", "Yt"])
    assert sparse.issparse(table.X)
    assert table.X.format == "csr"
    np.testing.assert_array_equal(table.X.toarray(), X)
    np.testing.assert_array_equal(table.Y, Y)


def test_labels_lying_in_columns_with_minus_one(tmp_path, arrays):
    X, Y = arrays
    savemat(tmp_path / "m.mat", {"data": X, "target": 2 * Y.T.astype(np.int16) - 1})
    names = {"features": "data", "labels": "target"}
    np.testing.assert_array_equal(read(tmp_path / "m.mat", orientation="columns", **names).Y, Y)
    with pytest.raises(DataFileError, match="no side of length 7"):
        read(tmp_path / "m.mat", **names)


def test_matlab_trouble(tmp_path, arrays):
    X, Y = arrays
    path = tmp_path / "m.mat"
    savemat(path, {"P": X, "Q": Y * 3})
    with pytest.raises(DataFileError, match=r"no variable \['X', 'Y'\]; it holds \['P', 'Q'\]"):
        read(path)
    with pytest.raises(DataFileError, match=r"no variable \['R'\]"):
        read(path, features="P", labels="R")
    with pytest.raises(DataFileError, match="must be 0/1 or -1/1; got 3"):
        read(path, features="P", labels="Q")
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"nothing of the kind" * 20, whole[:128]):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"m\.mat"):
            read(path, features="P", labels="Q")
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF" * 50)
    with pytest.raises(DataFileError, match=r"7\.3 .*-v7"):
        read(path)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "u1", "i8", "?"])
def test_matlab_agrees_with_scipy_for_every_type(tmp_path, dtype, compressed):
    path = tmp_path / "m.mat"
    X = (np.random.default_rng(0).random((6, 5)) * 3).astype(dtype)
    content = {
        "X": X,
        "Y": np.eye(6, 2),
        "text": "t",
        "cell": np.array([1, "b"], dtype=object),
        "s": {"a": 1},
    }
    savemat(path, content, do_compression=compressed)
    np.testing.assert_array_equal(read(path).X, loadmat(path)["X"].astype(np.float32))
    savemat(path, {**content, "X": sparse.csc_matrix(X.astype(float))}, do_compression=compressed)
    np.testing.assert_array_equal(read(path).X.toarray(), loadmat(path)["X"].toarray().astype(np.float32))
    with pytest.raises(DataFileError, match="variable cell: a matrix of numbers expected"):
        read(path, features="cell", labels="Y")


def test_damaged_matlab_files_raise_and_never_crash(tmp_path):
    # One wrong byte anywhere behind the header. SciPy's reader dies of a segmentation fault on many of these.
    path = tmp_path / "m.mat"
    X = np.eye(5)[:, :3] + 1
    for content in (
        {"X": X, "Y": np.ones((5, 2))},
        {"X": sparse.csc_matrix(X), "Y": sparse.csc_matrix(X > 1)},
    ):
        savemat(path, content)
        whole = path.read_bytes()
        for at in range(124, len(whole)):
            path.write_bytes(whole[:at] + bytes([(0, 14, 255)[at % 3]]) + whole[at + 1 :])
            try:
                table = read(path, features="X", labels="Y")
            except DataFileError:
                continue
            assert table.Y.shape[0] == table.X.shape[0]


@pytest.mark.parametrize("name", ["rcv1-s1", "iaprtc12-hue", "tmc2007", "corel16k-s1"])
def test_the_options_of_the_catalogue_fit_the_real_files(data_folder, name):
    (path,) = (data_folder / name).glob("*.mat")
    raw = loadmat(path)
    table = read(path, **registry()[name].options)
    key = next(key for key in ("X_all", "data", "X") if key in raw)
    X = sparse.vstack([raw["X"], raw["Xt"]]) if "Xt" in raw else raw[key]
    assert (sparse.csr_array(table.X) != sparse.csr_array(X)).nnz == 0


# --- npz ------------------------------------------------------------------------------------------


def test_npz_dense_and_sparse(tmp_path, arrays):
    X, Y = arrays
    thin = sparse.csr_array(X)
    np.savez(tmp_path / "dense.npz", X=X, Y=Y, label_names=np.array(["a", "b", "c"]))
    np.savez(
        tmp_path / "thin.npz",
        Y=Y,
        X_data=thin.data,
        X_indices=thin.indices,
        X_indptr=thin.indptr,
        X_shape=thin.shape,
    )
    assert read(tmp_path / "dense.npz").label_names == ("a", "b", "c")
    np.testing.assert_array_equal(read(tmp_path / "dense.npz").X, X)
    np.testing.assert_array_equal(read(tmp_path / "thin.npz").X.toarray(), X)


def test_npz_never_unpickles_and_checks_indices(tmp_path, arrays):
    X, Y = arrays
    path = tmp_path / "d.npz"
    np.savez(path, X=np.array([{"a": 1}], dtype=object), Y=Y)
    with pytest.raises(DataFileError, match="pickle"):
        read(path)
    thin = sparse.csr_array(X)
    outside = thin.indices.copy()
    outside[0] = 10_000
    np.savez(path, Y=Y, X_data=thin.data, X_indices=outside, X_indptr=thin.indptr, X_shape=thin.shape)
    with pytest.raises(DataFileError, match="not a CSR matrix"):
        read(path)
    np.savez(path, X=X)
    with pytest.raises(DataFileError, match=r"it holds \['X'\]"):
        read(path)
    np.savez(path, X=X, Y=Y)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataFileError, match="complete"):
        read(path)


def test_unknown_suffix_and_missing_file(tmp_path):
    with pytest.raises(ValueError, match=r"expected one of \.arff"):
        read(tmp_path / "t.doc")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read(tmp_path / "t.arff")


def _npz(path, **arrays):
    np.savez(path, **{"X": np.eye(3), "Y": np.eye(3, dtype=int)} | arrays)
    return path


@pytest.mark.parametrize("kind", ["feature", "label"])
@pytest.mark.parametrize("order", "<>")
def test_npz_names_that_are_no_text_are_refused(tmp_path, kind, order):
    points = np.array([97, 0x110000, 98, 99, 100, 101], dtype=f"{order}u4")
    bad = np.frombuffer(points.tobytes(), dtype=f"{order}U2")
    with pytest.raises(DataFileError, match=f"{kind}_names must be texts of Unicode characters"):
        read(_npz(tmp_path / "a.npz", **{f"{kind}_names": bad}))
    with pytest.raises(DataFileError, match=f"{kind} names must be valid Unicode text"):
        read(_npz(tmp_path / "a.npz", **{f"{kind}_names": np.array(["a", "b", "\ud800"])}))


@pytest.mark.parametrize("kind", ["feature", "label"])
def test_names_that_come_twice_are_refused(tmp_path, kind):
    with pytest.raises(DataFileError, match=f"{kind} names must be distinct; 'a' come twice"):
        read(_npz(tmp_path / "a.npz", **{f"{kind}_names": np.array(["a", "b", "a"])}))


@pytest.mark.parametrize("name", ["a.npz", "a.mat"])
def test_numbers_that_casts_complain_about_are_read_or_refused_without_a_warning(tmp_path, name):
    def written(X, Y):
        if name == "a.mat":
            savemat(tmp_path / name, {"X": X, "Y": Y})
            return tmp_path / name
        return _npz(tmp_path / name, X=X, Y=Y)

    X, Y = np.eye(3), np.eye(3)
    signalling = X.copy()
    signalling.view(np.uint64)[0, 0] = 0x7FF0000000000001  # a NaN that the processor reports when it is used
    assert np.isnan(read(written(signalling, Y)).X[0, 0])
    with pytest.raises(DataFileError, match="must be 0/1 or -1/1; got nan"):
        read(written(X, signalling))
    with pytest.raises(DataFileError, match="too large for a 32-bit number"):
        read(written(X * 1e39, Y))


def test_npz_with_an_endless_shape_is_refused(tmp_path):
    parts = {"X_data": np.ones(1), "X_indices": np.zeros(1, int), "X_indptr": np.array([0, 1, 1, 1])}
    np.savez(tmp_path / "a.npz", Y=np.eye(3), X_shape=np.array([3, np.inf]), **parts)
    with pytest.raises(DataFileError, match="not a CSR matrix"):
        read(tmp_path / "a.npz")

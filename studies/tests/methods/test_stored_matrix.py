"""Features that a file holds are the same bits again; what compiled code would index with is checked before."""

import json

import numpy as np
import pytest
from scipy import sparse

import onepos
from onepos._utils import storage
from onepos_studies.methods._classical import StoredMatrix

ROWS = np.array([[0.5, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, -1.0, 0.0], [3.0, 0.0, 0.0]])


def written(matrix):
    place = storage.Place({}, "m")
    return json.loads(json.dumps(StoredMatrix("rows features").write(matrix, place))), place


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_features_come_back(container):
    entry, place = written(container(ROWS))
    again = StoredMatrix("rows features").read(entry, place)
    assert sparse.issparse(again) == sparse.issparse(container(ROWS))
    np.testing.assert_array_equal(again.toarray() if sparse.issparse(again) else again, ROWS)
    assert place.sizes["rows"] == 4


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indices", lambda array: np.full_like(array, 10**6)),
        ("indices", lambda array: np.full_like(array, -(2**31))),
        ("indices", lambda array: array[:-1]),
        ("indices", lambda array: array.astype(np.int64) + 2**40),
        ("indices", lambda array: array.astype(np.float32)),
        ("indptr", lambda array: array[::-1]),
        ("indptr", lambda array: array + 1),
        ("indptr", lambda array: array * 1000),
        ("indptr", lambda array: array[:-1]),
        ("indptr", lambda array: np.where(np.arange(len(array)) == 2, -(2**31), array).astype(array.dtype)),
        ("data", lambda array: array[:-1]),
        ("data", lambda array: array * np.nan),
    ],
)
def test_sparse_matrices_are_checked_before_compiled_code_reads_them(part, change):
    entry, place = written(sparse.csr_array(ROWS))
    place.arrays[f"m.{part}"] = np.ascontiguousarray(change(place.arrays[f"m.{part}"]))
    with pytest.raises(ValueError, match=r"^m\."):
        StoredMatrix("rows features").read(entry, place)


@pytest.mark.parametrize("shape", [[40, 3], [4, 2], [-4, 3], [3, 4], [4], "4", None, [4, 10**30]])
def test_shapes_are_checked(shape):
    entry, place = written(sparse.csr_array(ROWS))
    with pytest.raises(ValueError, match="m"):
        StoredMatrix("rows features").read(entry | {"shape": shape}, place)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("d2ml", {"rank_weight": 1.0}),
        ("d2ml", {"rank_weight": 1.0, "kernel": "rbf", "n_landmarks": 9}),
        ("glocal", {"feature_l2": 1.0}),
        ("mlml", {"instance_smoothness": 1.0, "graph_metric": "euclidean"}),
        ("mlml", {"instance_smoothness": 1.0, "graph_metric": "cosine"}),
        ("smile-code", {"max_epochs": 2, "network": (4,)}),
    ],
)
def test_saved_models_predict_the_same(tmp_path, key, settings, container):
    X = np.random.default_rng(0).normal(size=(60, 12)).clip(min=0)
    model = onepos.make_classifier(key, random_state=0, **settings).fit(container(X), np.eye(4)[np.arange(60) % 4])
    again = onepos.load(model.save(tmp_path / "model.onepos"))
    assert np.array_equal(again.predict_proba(container(X)), model.predict_proba(container(X)))
    assert np.array_equal(again.predict(container(X)), model.predict(container(X)))

"""Features on disk: the same model as from memory, and the memory that this does not take."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from onepos import make_classifier
from onepos.datasets import make_known_posterior
from onepos.graph import neighbors as neighbor_search
from onepos.graph.neighbors import aggregated_rows, nearest_neighbors, neighbor_means
from onepos.rows import stored as disk
from onepos.rows.scaling import fit_scaler
from onepos.rows.stored import DiskRows, column_statistics, on_disk


@pytest.fixture(autouse=True)
def small_maps_count(monkeypatch):
    """Treat every map as too large to be loaded, and read it in many blocks."""
    monkeypatch.setattr(disk, "LOAD_BELOW_BYTES", 0)
    monkeypatch.setattr(disk, "BLOCK_BYTES", 1 << 12)


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(600, 6, 5, n_positives=2.0, random_state=0)


@pytest.fixture
def to_disk(tmp_path):
    """Return a function that writes an array and opens it memory-mapped."""

    def write(X, name="X.npy"):
        np.save(tmp_path / name, X)
        return np.load(tmp_path / name, mmap_mode="r")

    return write


def quick(key, **params):
    return make_classifier(key, max_epochs=3, batch_size=64, random_state=0, **params)


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("scale", ["auto", "standard", "minmax", "none"])
@pytest.mark.parametrize("key", ["an", "smile"])
def test_the_model_is_that_of_the_array_in_memory(data, to_disk, key, scale, early_stopping):
    X = np.float32(3.0 * data.X + 1.0)
    model = quick(key, scale=scale, early_stopping=early_stopping)
    in_memory = clone(model).fit(X, data.observed)
    from_disk = clone(model).fit(to_disk(X), data.observed)
    assert from_disk.history_.facts["scale"] == in_memory.history_.facts["scale"]
    np.testing.assert_allclose(from_disk.predict_proba(X), in_memory.predict_proba(X), rtol=1e-4, atol=1e-5)
    if key == "smile":
        np.testing.assert_allclose(from_disk.soft_labels_, in_memory.soft_labels_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("key", ["smile-si", "role", "softmax", "logistic", "frequency"])
def test_every_kind_of_method_takes_a_map(data, to_disk, key):
    X = np.float32(data.X)
    settings = {"random_state": 0, "max_epochs": 2}
    model = make_classifier(key)
    model.set_params(**{name: value for name, value in settings.items() if name in model.get_params()})
    expected = clone(model).fit(X, data.observed).predict_proba(X)
    np.testing.assert_allclose(model.fit(to_disk(X), data.observed).predict_proba(to_disk(X)), expected, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_predictions_are_those_of_the_array_bit_by_bit(data, to_disk, dtype):
    X = (10 * np.abs(data.X)).astype(dtype)
    model = quick("an").fit(X, data.observed)
    for name in ("predict_proba", "decision_function", "predict"):
        assert np.array_equal(getattr(model, name)(to_disk(X)), getattr(model, name)(X))


def test_a_validation_set_may_be_on_disk_too(data, to_disk):
    X = np.float32(data.X)
    train, held = to_disk(X[:400], "train.npy"), to_disk(X[400:], "held.npy")
    model = quick("an").fit(train, data.observed[:400], validation=(held, data.Y[400:]), validation_labels="full")
    again = quick("an").fit(X[:400], data.observed[:400], validation=(X[400:], data.Y[400:]), validation_labels="full")
    assert model.history_["valid_average_precision"] == pytest.approx(again.history_["valid_average_precision"])


def test_only_large_matrices_of_numbers_stay_on_disk(to_disk, monkeypatch):
    X = to_disk(np.zeros((100, 10), dtype=np.float32))
    assert on_disk(X)
    assert not on_disk(np.asarray(X))
    assert not on_disk(X[0])
    assert not on_disk(to_disk(np.zeros((3, 2), dtype=complex), "complex.npy"))
    monkeypatch.setattr(disk, "LOAD_BELOW_BYTES", 4001)
    assert not on_disk(X)


def test_bad_features_on_disk_are_refused(data, to_disk):
    X = data.X.astype(np.float32, copy=True)
    model = quick("an").fit(to_disk(X), data.observed)
    with pytest.raises(ValueError, match=r"5 features, but .* is expecting 6"):
        model.predict(to_disk(X[:, :5], "narrow.npy"))
    X[321, 2] = np.nan
    with pytest.raises(ValueError, match="row 321 of the memory-mapped X"):
        quick("an").fit(to_disk(X, "nan.npy"), data.observed)
    with pytest.raises(ValueError, match="same number of rows"):
        quick("an").fit(to_disk(X[:100], "short.npy"), data.observed)


def test_statistics_of_blocks_are_those_of_the_whole():
    X = np.random.default_rng(0).normal(1e4, [1.0, 50.0, 0.01], size=(3000, 3))
    statistics = column_statistics(DiskRows(X))
    for found, expected in zip(statistics, (X.mean(0), X.std(0), X.min(0), X.max(0)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    part = np.array([5, 3, 99])
    np.testing.assert_allclose(column_statistics(DiskRows(X).take(part))[1], X[part].std(axis=0), rtol=1e-9)


@pytest.mark.parametrize("kind", ["standard", "minmax", "none"])
def test_rows_are_read_scaled_in_the_order_asked_for(to_disk, kind):
    X = np.random.default_rng(0).normal(size=(200, 3))
    scaler = fit_scaler(X, kind)
    rows = scaler.transform(DiskRows(to_disk(X))).take(np.arange(100, 200))
    wanted = np.array([7, 2, 7, 99, 0])
    assert np.array_equal(rows[wanted], scaler.transform(X)[100:][wanted])
    assert np.array_equal(rows[10:20], scaler.transform(X)[110:120])
    assert rows[wanted].dtype == np.float32
    assert np.array_equal(np.vstack([block for _, block in rows.blocks()]), scaler.transform(X)[100:])


@pytest.mark.parametrize("form", [np.asarray, DiskRows])
def test_aggregated_rows_equal_the_product_of_all_bit_by_bit(tmp_path, monkeypatch, form):
    monkeypatch.setattr("onepos.graph.neighbors._BLOCK_BYTES", 1 << 12)
    X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    neighbors, _ = nearest_neighbors(X, 5)
    expected = 0.3 * X + (1.0 - 0.3) * (neighbor_means(neighbors, 300) @ X)
    assert np.array_equal(aggregated_rows(form(X), neighbors, 0.3, None), expected)
    stored = aggregated_rows(form(X), neighbors, 0.3, tmp_path / "new")
    assert np.array_equal(stored[:], expected)
    assert not list((tmp_path / "new").iterdir())  # it has no name any more, so that nothing is left behind


def test_a_cache_folder_changes_no_bit_and_is_empty_afterwards(data, tmp_path):
    plain = quick("smile").fit(data.X, data.observed)
    cached = quick("smile", cache_folder=str(tmp_path / "cache")).fit(data.X, data.observed)
    assert np.array_equal(cached.soft_labels_, plain.soft_labels_)
    assert np.array_equal(cached.predict_proba(data.X), plain.predict_proba(data.X))
    assert list((tmp_path / "cache").iterdir()) == []


def test_smile_from_disk_with_the_approximate_graph(data, to_disk, tmp_path, monkeypatch):
    monkeypatch.setattr(neighbor_search, "EXACT_UP_TO", 100)
    model = quick("smile", cache_folder=str(tmp_path / "cache")).fit(to_disk(np.float32(data.X)), data.observed)
    assert model.history_.facts["graph"]["search"] == "approximate"
    assert model.score(data.X, data.Y) > 0.5


PROBE = """
import sys, threading, time
import numpy as np, psutil
import onepos

process, peak, done = psutil.Process(), 0, False

def own():
    memory = process.memory_info()
    return memory.rss - memory.shared  # without the file's pages, which the system takes back when it needs them

def watch():
    global peak
    while not done:
        peak = max(peak, own())
        time.sleep(0.002)

y = np.eye(5, dtype=np.int8)[np.random.default_rng(0).integers(5, size=60_000)]
model = onepos.make_classifier("an", max_epochs=1, batch_size=4096, network=(16,), random_state=0)
model.fit(np.random.default_rng(0).normal(size=(5000, 1000)), y[:5000])  # libraries are loaded and warm
before = own()
watcher = threading.Thread(target=watch)
watcher.start()
X = np.load(sys.argv[1], mmap_mode="r")
model.fit(X, y)
assert model.predict_proba(X).shape == y.shape
done = True
watcher.join()
print(peak - before, X.nbytes)
"""


@pytest.mark.long
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells a process's own memory from its maps"
)
def test_training_and_prediction_take_a_fraction_of_the_file(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=(60_000, 1000))
    block = np.random.default_rng(0).normal(size=(10_000, 1000)).astype(np.float32)
    for start in range(0, len(X), len(block)):
        X[start : start + len(block)] = block
    del X
    # Freed blocks go back to the system at once: what malloc keeps for later is luck, up to three times what is used.
    settings = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    command = [sys.executable, "-c", PROBE, str(tmp_path / "X.npy")]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=settings)
    growth, size = map(int, result.stdout.split())
    assert growth < size / 3

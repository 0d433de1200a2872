"""Exported graphs give the model's own probabilities and sets in onnxruntime; what cannot be exported says so."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from torch import nn

import onepos
from onepos.datasets import make_known_posterior
from onepos.exceptions import MissingDependencyError
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import METHODS
from onepos.persistence.onnx import export_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

FAST = {
    "frequency": {},
    "logistic": {"l2": 1.0},
    "forest": {"n_trees": 5, "random_state": 0},
    "kernel": {"random_state": 0},
    "centroid": {"random_state": 0},
}
EXPORTABLE = [key for key in METHODS if key not in ("auto", "capped", "logistic", "forest", "kernel", "centroid")]
#: One of every kind of graph.
KINDS = ["an", "softmax", "frequency"]


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(120, 5, 4, random_state=2)


def build(key, **params):
    settings = FAST.get(key, {"max_epochs": 3, "random_state": 0})
    if key == "frequency":
        params = {}
    return onepos.make_classifier(key, **{**settings, **params})


def run(path, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert [(entry.name, entry.type) for entry in session.get_inputs()] == [("features", "tensor(float)")]
    assert [entry.name for entry in session.get_outputs()] == ["probabilities", "sets"]
    probabilities, sets = session.run(None, {"features": np.asarray(X, dtype=np.float32)})
    assert probabilities.dtype == np.float32
    assert sets.dtype == np.int64
    return probabilities, sets


def check(model, X, path, tolerance=1e-5, **options):
    onnx.checker.check_model(onnx.load(export_onnx(model, path, **options)), full_check=True)
    single = np.asarray(X, dtype=np.float32)
    probabilities, sets = run(path, single)
    expected = model.predict(single)
    if model.single_label_:
        expected = (expected[:, None] == model.classes_[None, :]).astype(int)
    assert probabilities.shape == (len(single), len(model.classes_))
    assert np.abs(probabilities - model.predict_proba(single)).max() < tolerance
    assert np.array_equal(sets, expected)
    return probabilities, sets


def test_a_combination_of_models_is_refused(tmp_path, data):
    model = onepos.AutoClassifier(methods=("logistic",), n_folds=2, time_budget=None, random_state=0).fit(
        data.X, data.observed
    )
    with pytest.raises(ValueError, match="AutoClassifier predicts in a way that onepos cannot write"):
        export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize("key", ["capped", "logistic"])
def test_a_level_found_by_iteration_is_refused(tmp_path, data, key):
    model = build(key).fit(data.X, data.observed)
    with pytest.raises(ValueError, match="Classifier finds the level of every row by iteration"):
        export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("forest", "ForestClassifier walks through its trees"),
        ("kernel", "KernelClassifier compares rows"),
        ("centroid", "CentroidClassifier compares rows"),
    ],
)
def test_trees_and_landmarks_are_refused(tmp_path, data, key, reason):
    model = build(key).fit(data.X, data.observed)
    with pytest.raises(ValueError, match=reason):
        export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("key", "scale"),
    [*((key, "standard") for key in EXPORTABLE), *((key, scale) for key in KINDS for scale in ("minmax", "none"))],
)
def test_every_key_and_scale(tmp_path, data, key, scale):
    model = build(key, scale=scale).fit(data.X, data.observed)
    check(model, data.X, tmp_path / "deep" / "model.onnx")


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize("scale", ["auto", "standard"])
def test_trained_on_sparse_rows(tmp_path, data, key, scale):
    X = np.where(data.X > 0, data.X, 0.0)
    model = build(key, scale=scale).fit(sparse.csr_array(X), data.observed)
    check(model, X, tmp_path / "model.onnx")


@pytest.mark.parametrize("key", [*KINDS, "logistic"])
@pytest.mark.filterwarnings("ignore:y has one class per row")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_one_class_a_row(tmp_path, data, key, n_classes):
    y = np.array(["red", "green", "blue", "grey"])[data.observed.argmax(axis=1) % n_classes]
    model = build(key).fit(data.X, y)
    probabilities, sets = check(model, data.X, tmp_path / "model.onnx")
    assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-5)
    assert (sets.sum(axis=1) == 1).all()


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize("at_least_one", [True, False])
def test_thresholds(tmp_path, data, key, at_least_one):
    model = build(key).fit(data.X, data.observed)
    single = data.X.astype(np.float32)
    model.choose_thresholds(single, rates=[0.1, 0.5, 0.3, 0.02], at_least_one=at_least_one)
    _, sets = check(model, single, tmp_path / "model.onnx")
    check(model, single, tmp_path / "single.onnx", precision="single")
    if key != "frequency":  # all rows alike: all of them reach a threshold that one reaches
        assert sets.sum(axis=1).min() == int(at_least_one)


@pytest.mark.parametrize("key", [key for key in KINDS if key != "softmax"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_calibrated(tmp_path, data, key, precision):
    model = build(key).fit(data.X, data.observed).calibrate(data.X, data.Y)
    check(model, data.X, tmp_path / "model.onnx", precision=precision)
    model.choose_thresholds(data.X.astype(np.float32), n_positives=1.5)
    check(model, data.X, tmp_path / "with.onnx", precision=precision)


def test_a_calibrated_softmax_is_refused(tmp_path, data):
    model = build("softmax").fit(data.X, data.observed).calibrate(data.X, data.Y)
    with pytest.raises(ValueError, match="calibrated softmax model is not exported"):
        export_onnx(model, tmp_path / "model.onnx")


def test_a_threshold_that_rows_reach_exactly(tmp_path, data):
    """Many rows have the same probabilities, and one of these is the threshold itself."""
    X = (data.X[:, :2] > 0).astype(np.float32)
    model = build("an", network=(300,)).fit(X, data.observed)
    model.choose_thresholds(X, n_positives=1.3, at_least_one=False)
    model.thresholds_ = np.full(len(model.classes_), model.predict_proba(X)[0].max())
    assert np.isin(model.predict_proba(X), model.thresholds_).any()
    check(model, X, tmp_path / "model.onnx")
    check(model, X, tmp_path / "single.onnx", precision="single")


def test_features_far_from_zero(tmp_path, data):
    X = (1e6 + data.X.round(1) * 10).astype(np.float32)
    check(build("smile").fit(X, data.observed), X, tmp_path / "model.onnx")


@pytest.mark.parametrize("key", KINDS)
def test_single_precision_has_no_doubles(tmp_path, data, key):
    model = build(key).fit(data.X, data.observed)
    check(model, data.X, tmp_path / "model.onnx", precision="single")
    loaded = onnx.load(tmp_path / "model.onnx")
    double = onnx.TensorProto.DOUBLE
    assert double not in {constant.data_type for constant in loaded.graph.initializer}
    assert double not in {attribute.i for node in loaded.graph.node for attribute in node.attribute}


def test_deep_networks_and_dropout(tmp_path, data):
    model = build("an", network=(16, 8, 7), dropout=0.3, input_dropout=0.2).fit(data.X, data.observed)
    check(model, data.X, tmp_path / "model.onnx")


def test_a_loaded_model_exports_the_same_bytes(tmp_path, data):
    model = build("an").fit(data.X, data.observed).choose_thresholds(data.X, n_positives=2)
    again = onepos.load(model.save(tmp_path / "model.onepos"))
    first, second = export_onnx(model, tmp_path / "a.onnx"), export_onnx(again, tmp_path / "b.onnx")
    assert first.read_bytes() == second.read_bytes()


def test_metadata(tmp_path, data):
    X = pd.DataFrame(data.X, columns=list("vwxyz"))
    Y = pd.DataFrame(data.observed, columns=["red", "grün", "blue", "grey"])
    model = build("softmax").fit(X, Y).choose_thresholds(X, n_positives=2)
    loaded = onnx.load(export_onnx(model, tmp_path / "model.onnx"))
    facts = {entry.key: entry.value for entry in loaded.metadata_props}
    assert json.loads(facts["labels"]) == ["red", "grün", "blue", "grey"]
    assert json.loads(facts["features"]) == list("vwxyz")
    assert json.loads(facts["thresholds"]) == model.thresholds_.tolist()
    assert facts["onepos_version"] == onepos.__version__
    assert facts["method"] == "SoftmaxClassifier"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build("an", network=nn.Linear(5, 4)), r"network of your own \(Linear\).*torch.onnx"),
        (lambda: Doubled(max_epochs=1), "Doubled predicts in a way"),
    ],
)
def test_what_cannot_be_exported(tmp_path, data, make, message):
    model = make().fit(data.X, data.observed)
    with pytest.raises(ValueError, match=message):
        export_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


class Doubled(onepos.AssumeNegativeClassifier):
    def _logits(self, X):
        return 2.0 * super()._logits(X)


class Renamed(onepos.AssumeNegativeClassifier):
    pass


def test_methods_of_ones_own_that_score_rows_as_the_library_does(tmp_path, data):
    assert issubclass(Renamed, NeuralClassifier)
    check(Renamed(max_epochs=1, random_state=0).fit(data.X, data.observed), data.X, tmp_path / "model.onnx")


def test_clear_errors(tmp_path, data, monkeypatch):
    with pytest.raises(ValueError, match="not fitted"):
        export_onnx(build("an"), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"got dict.*model.estimator_"):
        export_onnx({}, tmp_path / "model.onnx")
    model = build("frequency").fit(data.X, data.observed)
    with pytest.raises(ValueError, match="precision must be"):
        export_onnx(model, tmp_path / "model.onnx", precision="half")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"exporting to ONNX needs onnx.*onepos\[onnx\]"):
        export_onnx(model, tmp_path / "model.onnx")


def test_an_interrupted_export_leaves_the_old_file(tmp_path, data, monkeypatch):
    model = build("frequency").fit(data.X, data.observed)
    path = export_onnx(model, tmp_path / "model.onnx")
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        export_onnx(build("an").fit(data.X, data.observed), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]

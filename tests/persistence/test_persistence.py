"""Saved models open in another process with the same bits; damaged, foreign and hostile files are refused."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file

import onepos
from forged_models import read_model, write_model
from method_kinds import KINDS
from onepos._utils.tensor_file import write_tensors
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning, ModelFileError
from onepos.persistence import FORMAT, FORMAT_VERSION

FAST = {
    "frequency": {},
    "auto": {"methods": ("kernel", "wan"), "n_folds": 2, "time_budget": None, "random_state": 0},
    "kernel": {"random_state": 0},
    "centroid": {"random_state": 0},
    "logistic": {"l2": 1.0},
    "forest": {"n_trees": 20, "random_state": 0},
}


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(150, 5, 4, random_state=2)


def _fit(key, data, **params):
    X = pd.DataFrame(data.X, columns=list("vwxyz"))
    Y = pd.DataFrame(data.observed, columns=["red", "green", "blue", "grey"])
    settings = FAST.get(key, {"max_epochs": 3, "random_state": 0})
    return onepos.make_classifier(key, **{**settings, **params}).fit(X, Y), X


@pytest.fixture
def saved(tmp_path, data):
    model, X = _fit("smile", data)
    return model.save(tmp_path / "model.onepos"), model, X


@pytest.mark.parametrize(
    ("key", "scale"), [*((key, "standard") for key in KINDS if key not in ("frequency", "forest")), ("an", "none")]
)
def test_round_trip_is_bit_identical(tmp_path, data, key, scale):
    model, X = _fit(key, data, scale=scale)
    again = onepos.load(model.save(tmp_path / "deep" / "model.onepos"))
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.feature_names_in_.tolist() == list("vwxyz")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_thresholds_come_back(saved, tmp_path):
    _, model, X = saved
    of_fit = model.thresholds_
    model.choose_thresholds(X, n_positives=1.7)
    again = onepos.load(model.save(tmp_path / "with.onepos"))
    assert np.array_equal(again.thresholds_, model.thresholds_)
    assert again.at_least_one_ is True
    assert again.thresholds_from_ == "choose_thresholds"
    assert (again.n_positives_, again.n_positives_from_) == (model.n_positives_, model.n_positives_from_)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert not np.array_equal(of_fit, model.thresholds_)
    assert np.array_equal(onepos.load(saved[0]).thresholds_, of_fit)


@pytest.mark.parametrize("where", ["weights", "header"])
def test_a_changed_file_is_refused(saved, where):
    path, _, _ = saved
    content = bytearray(path.read_bytes())
    if where == "weights":
        content[-5] ^= 1
    else:
        place = content.index(b"blue")
        content[place : place + 4] = b"bleu"
    path.write_bytes(bytes(content))
    with pytest.raises(ModelFileError, match="checksum does not match"):
        onepos.load(path)


def test_history_comes_back(saved):
    path, model, _ = saved
    again = onepos.load(path)
    assert again.history_.records == model.history_.records
    assert again.history_.facts == model.history_.facts


def test_input_dropout_is_stored(tmp_path, data):
    model, X = _fit("an", data, input_dropout=0.2, dropout=0.1, network=(6, 7))
    again = onepos.load(model.save(tmp_path / "model.onepos"))
    assert (again.network_.input_dropout, again.network_.dropout, again.network_.sizes) == (0.2, 0.1, (5, 6, 7, 4))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_one_dimensional_contract_survives(tmp_path, data):
    tags = np.array(["ant", "bee", "cat", "dog"])[data.observed.argmax(axis=1)]
    with pytest.warns(LabelWarning, match="ordinary multi-class"):
        model = onepos.make_classifier("an", max_epochs=2, random_state=0).fit(data.X, tags)
    again = onepos.load(model.save(tmp_path / "m"))
    assert np.array_equal(again.predict(data.X), model.predict(data.X))
    assert again.predict(data.X).dtype.kind == "U"


def test_unfitted_and_foreign_networks_are_refused(tmp_path, data):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        onepos.SMILEClassifier().save(tmp_path / "m")
    model = onepos.AssumeNegativeClassifier(network=torch.nn.Linear(5, 4), max_epochs=1).fit(data.X, data.observed)
    with pytest.raises(ModelFileError, match="network of your own"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_generator_as_random_state_is_not_stored(tmp_path, data):
    model, _ = _fit("an", data, random_state=np.random.default_rng(0))
    assert onepos.load(model.save(tmp_path / "m")).random_state is None


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_files(saved, keep):
    path, _, _ = saved
    content = path.read_bytes()
    path.write_bytes(content[:keep])
    with pytest.raises(ModelFileError, match="truncated or corrupt"):
        onepos.load(path)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_a_file_that_memory_cannot_hold_is_refused_in_one_line(tmp_path):
    path = tmp_path / "large.onepos"
    header = {"format": FORMAT, "format_version": FORMAT_VERSION}
    write_tensors(path, save_file, {"weights": np.zeros(50_000_000, dtype=np.float32)}, header)
    script = (
        "import resource, sys; import onepos.persistence, safetensors\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000,) * 2)\n"
        "try:\n    onepos.load(sys.argv[1])\n"
        "except onepos.persistence.ModelFileError as error:\n    print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert "needs more memory than there is: it has 200 MB" in ended.stdout


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model file"):
        onepos.load(tmp_path / "nothing")
    foreign = tmp_path / "weights.safetensors"
    save_file({"a": np.zeros(3)}, foreign)
    with pytest.raises(ModelFileError, match="not a onepos model"):
        onepos.load(foreign)
    save_file({"a": np.zeros(3)}, foreign, metadata={"onepos": "0" * 32 + "[1, 2]"})
    with pytest.raises(ModelFileError, match="not a onepos model"):
        onepos.load(foreign)
    (tmp_path / "text").write_text("hello " * 100)
    with pytest.raises(ModelFileError):
        onepos.load(tmp_path / "text")


def _tamper(path, change):
    model = read_model(path.read_bytes())
    change(*model)
    path.write_bytes(write_model(model))


@pytest.mark.parametrize(
    "change",
    [
        lambda h, a: h.update(format_version=99),
        lambda h, a: h.update(format_version=True),
        lambda h, a: h.update(format="another model"),
        lambda h, a: h.pop("model"),
        lambda h, a: h["model"].update({"class": "os.system"}),
        lambda h, a: h["model"].pop("_params"),
        lambda h, a: h["model"]["_params"].update(surprise=1),
        lambda h, a: h["model"]["network_"].update(weights=["array"] * 3),
        lambda h, a: h["model"]["network_"].update(weights="many"),
        lambda h, a: h["model"].pop("history_"),
        lambda h, a: a.pop("scaler_.shift"),
        lambda h, a: a.pop("network_.weights.0"),
        lambda h, a: a.update({"network_.weights.0": a["network_.weights.0"].T.copy()}),
        lambda h, a: h["model"]["classes_"].update(dtype="<no such type>"),
        lambda h, a: h.update(model=None),
        lambda h, a: h["model"].update(thresholds_from_=[]),
        lambda h, a: h["model"].update(predict="x"),
    ],
)
def test_tampered_files_are_refused_clearly(saved, change):
    path, _, _ = saved
    _tamper(path, change)
    with pytest.raises(ModelFileError):
        onepos.load(path)


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    path, model, _ = saved
    before = path.read_bytes()

    def no_space(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("onepos._utils.files.os.fsync", no_space)
    with pytest.raises(OSError, match="no space"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]

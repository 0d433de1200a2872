"""Opening a model never runs code, whatever stands in its fields, and none of them can ask for unlimited memory."""

import builtins
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import onepos
from forged_models import Model, read_model, write_model
from onepos.exceptions import ModelFileError
from onepos.table import TableModel


class _Touch:
    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return (os.system, (f"touch {self.trace}",))


def _payloads(trace):
    return [
        pickle.dumps(_Touch(trace)).decode("latin-1"),
        f"cos\nsystem\n(S'touch {trace}'\ntR.",
        f"__import__('os').system('touch {trace}')",
        {"__reduce__": ["os.system", [f"touch {trace}"]]},
        {"py/object": "os.system", "_target_": "os.system", "__class__": "os.system", "args": [f"touch {trace}"]},
        f"!!python/object/apply:os.system ['touch {trace}']",
        "os.system",
        "{0.__class__.__mro__} %s %n {{7*7}} ${jndi:ldap://127.0.0.1:9/x}",
        str(trace),
        "../" * 8 + "etc/passwd",
        "O",
        "object",
        [],
        {},
        None,
        -1,
        1e308,
        10**30,
        True,
    ]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A network with thresholds, one on disk-like rows, a combination and a model of tables, as (header, arrays)."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    tags = np.where(X[:, 0] > 0, "sea", np.where(X[:, 1] > 0, "sun", "sky"))
    frame = pd.DataFrame(X, columns=list("abc")).assign(word=np.where(X[:, 2] > 0, "x", "y"), text=tags, tag=tags)
    Y = onepos.one_positive(tags)
    neural = onepos.make_classifier("wan", network=(3,), max_epochs=1, random_state=0).fit(frame[["a", "b", "c"]], Y)
    made = {
        "network": neural.choose_thresholds(frame[["a", "b", "c"]], n_positives=1.5),
        "graph": onepos.make_classifier("kernel").fit(X, Y),
        "auto": onepos.make_classifier("auto", methods=("kernel",), n_folds=2, random_state=0).fit(X, Y),
        "table": TableModel(text="text", method="logistic", params={"l2": 1.0}, random_state=0).fit(frame, label="tag"),
    }
    stored = {}
    for name, model in made.items():
        stored[name] = read_model(model.save(folder / name).read_bytes())
    return stored


def _write(path, header, arrays):
    """Write a forged file with a checksum that is right."""
    path.write_bytes(write_model(Model(header, arrays)))


def _places(value, path=()):
    """Every place in a JSON value: each entry, at any depth."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if not isinstance(key, int) or key < 2:  # two entries of a list stand for all
            yield from _places(item, (*path, key))


def _planted(header, place, payload):
    if not place:
        return payload
    copy = json.loads(json.dumps(header))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = payload
    return copy


def _opens(path):
    """Whether a model can be opened; it may also be refused, by the documented error alone."""
    try:
        onepos.load(path)
    except ModelFileError:
        return False
    return True


@pytest.mark.parametrize("name", ["network", "graph", "auto", "table"])
def test_nothing_planted_in_any_field_runs(models, name, tmp_path, monkeypatch):
    header, arrays = models[name]
    trace = tmp_path / "trace"
    path = tmp_path / "model.onepos"

    def refuse(*arguments, **_):
        raise AssertionError(f"the file made onepos run {arguments}")

    payloads = _payloads(trace)
    _write(path, header, arrays)
    onepos.load(path)  # what is imported late is imported now
    for place in ((os, "system"), (subprocess, "Popen"), (pickle, "loads"), (pickle, "load"), (builtins, "eval")):
        monkeypatch.setattr(*place, refuse)
    accepted = 0
    for number, place in enumerate(_places(header)):
        for payload in payloads[number % 3 :: 3]:  # each payload meets many places, and each place many payloads
            _write(path, _planted(header, place, payload), arrays)
            accepted += _opens(path)
    assert accepted  # a text as a label's name is just a text
    assert not trace.exists()


def test_keys_and_names_of_arrays_are_just_texts(models, tmp_path):
    header, arrays = models["network"]
    trace = tmp_path / "trace"
    for payload in (text for text in _payloads(trace) if isinstance(text, str)):
        path = tmp_path / "model.onepos"
        _write(path, header | {payload: payload}, arrays | {payload: np.ones(1)})
        _opens(path)
    assert not trace.exists()


@pytest.mark.parametrize("layers", [["array"] * 10**6, [[3, 10**9]], "33", {"a": 1}, None, []])
def test_layers_of_a_network_that_are_none(models, tmp_path, layers):
    header, arrays = models["network"]
    path = tmp_path / "model.onepos"
    _write(path, _planted(header, ("model", "network_", "weights"), layers), arrays)
    with pytest.raises(ModelFileError):
        onepos.load(path)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("network", ("_params", "device"), "cuba"),
        ("network", ("_params", "batch_size"), 2.5),
        ("graph", ("_params", "n_landmarks"), 2.5),
        ("graph", ("gamma_",), 0.0),
        ("auto", ("members_", 0, "_params", "n_landmarks"), 2.5),
        ("table", ("encoder_", "kinds_"), {"a": "number", "b": "number", "c": "number", "word": "text"}),
        ("table", ("encoder_", "_columns", 0, "name"), "="),
    ],
)
def test_settings_and_columns_that_cannot_be_are_refused_on_opening_not_at_predict(
    models, name, place, value, tmp_path
):
    header, arrays = models[name]
    path = tmp_path / "model.onepos"
    _write(path, _planted(header, ("model", *place), value), arrays)
    with pytest.raises(ModelFileError):
        onepos.load(path)


def test_a_deep_header_is_refused(models, tmp_path):
    path = tmp_path / "model.onepos"
    save_file(models["network"][1], path, metadata={"onepos": "0" * 32 + "[" * 100_000})
    with pytest.raises(ModelFileError):
        onepos.load(path)


def test_a_numpy_dtype_of_a_file_cannot_be_an_object(models, tmp_path):
    header, arrays = models["network"]
    for dtype in ("O", "|O", "V8", "M8[s]", "O,O", "(1,)f8,=", "", "{'names':['a'],'formats':['O']}"):
        path = tmp_path / "model.onepos"
        _write(path, _planted(header, ("model", "classes_", "dtype"), dtype), arrays)
        with pytest.raises(ModelFileError):
            onepos.load(path)


def test_a_file_cannot_ask_for_wide_texts(models, tmp_path):
    header, arrays = models["network"]
    path = tmp_path / "model.onepos"
    _write(path, _planted(header, ("model", "classes_", "dtype"), "<U99999999"), arrays)
    assert onepos.load(path).classes_.dtype == "<U3"


def test_loading_in_a_fresh_process_imports_nothing_named_in_the_file(models, tmp_path):
    header, arrays = models["network"]
    (tmp_path / "planted.py").write_text("raise SystemExit('the file made onepos import this')")
    path = tmp_path / "model.onepos"
    forged = _planted(header, ("model", "class"), "planted.Model")
    _write(path, forged, arrays)
    script = "import sys, onepos\ntry: onepos.load(sys.argv[1])\nexcept onepos.exceptions.ModelFileError as e: print(e)"
    ended = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "must be a class that this version of onepos stores" in ended.stdout

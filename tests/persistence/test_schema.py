"""A model file opens only if its parts fit together, and is refused before anything is built from it.

Every forged file has a checksum that is right, so that the checksum refuses none of them.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import onepos
from forged_models import Model, Raw, fitted, open_forged, read_model, write_model
from onepos.exceptions import ModelFileError
from onepos.methods.registry import METHODS

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "reliability"))  # scripts, not a package

import fuzz


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return a function that gives the header and the arrays of a model by name; each is fitted once."""
    folder, models, found = tmp_path_factory.mktemp("models"), fitted(), {}

    def of(name):
        if name not in found:
            found[name] = models[name]().save(folder / name).read_bytes()
        return read_model(found[name])

    return of


@pytest.fixture
def refuses(parts, tmp_path):
    """Return a function that changes a model, opens it, and gives the message of the refusal."""

    def of(name, change):
        model = parts(name)
        change(*model)
        path = tmp_path / "forged.onepos"
        path.write_bytes(write_model(model))
        with pytest.raises(ModelFileError) as refusal:
            onepos.load(path)
        return str(refusal.value)

    return of


def _set(*keys, to):
    """Return the change of one field of a header."""

    def change(header, arrays):
        inner = header
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to

    return change


def _column(name, field, to):
    """Return the change of what is stored of a column of a table."""

    def change(header, arrays):
        (column,) = (column for column in header["table"]["encoder"]["columns"] if column["name"] == name)
        column[field] = to

    return change


def _array(name, change):
    """Return the change of one array."""

    def changed(header, arrays):
        arrays[name] = np.ascontiguousarray(change(arrays[name]))

    return changed


def _entry(name, place, value):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return _array(name, change)


# Item 1: what compiled code indexes with.


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("roots", 0, 10**6, "roots must be nodes"),
        ("roots", 0, -1, "roots must be from 0"),
        ("feature", 0, 5, "feature must be from -1 to 4"),
        ("feature", 0, -2, "feature must be from -1 to 4"),
        ("threshold", 0, np.nan, "threshold must be finite"),
        ("right", 0, 0, "a child after its parent"),  # a tree that never ends
        ("right", 0, 10**6, "a child after its parent"),
        ("right", -1, 10**6, "right must number the leaves"),
        ("indptr", 0, 1, "indptr must rise from 0"),
        ("indptr", 1, 0, "indptr must give every leaf a label"),
        ("labels", 0, 4, "labels must be from 0 to 3"),
        ("counts", 0, 0, "counts must be from 1e-100"),
        ("frequency", 0, 0.0, "frequency must be from 1e-100 to 1"),
    ],
)
def test_trees_are_checked_before_they_are_walked(refuses, name, place, value, message):
    assert message in refuses("forest", _entry(name, place, value))


@pytest.mark.parametrize("name", ["roots", "feature", "threshold", "right", "indptr", "labels", "counts"])
def test_arrays_of_trees_have_their_lengths_and_types(refuses, name):
    assert name in refuses("forest", _array(name, lambda array: array[:, None]))
    assert f"{name} must be of type" in refuses("forest", _array(name, lambda array: array.astype(np.int64)))
    assert refuses("forest", _array(name, lambda array: array[:-1] if name != "roots" else array[:0]))


# Item 2: nothing is built before shapes are compared.


@pytest.mark.parametrize("n_layers", [10, 40_000])
def test_layers_are_compared_before_they_are_built(refuses, monkeypatch, n_layers):
    def build(*_):
        raise AssertionError("a layer was built")

    def change(header, arrays):
        header["facts"]["sizes"] = [5, *[1] * n_layers, 4]
        for name in [name for name in arrays if name.startswith("network.")]:
            del arrays[name]
        arrays["network.0.weight"] = np.zeros(6 + 2 * (n_layers - 1) + 8, np.float32)  # as many as the layers need

    assert refuses("an", _set("class", to="none"))  # the model to be changed is fitted by now
    monkeypatch.setattr("onepos.training.networks.linear", build)
    message = refuses("an", change)
    assert "sizes" in message or "network." in message


def test_a_network_without_layers_is_refused(refuses):
    def change(header, arrays):
        header["facts"]["sizes"] = []
        for name in [name for name in arrays if name.startswith("network.")]:
            del arrays[name]

    assert "sizes" in refuses("an", change)


def test_a_network_of_very_many_stored_layers_is_refused(refuses):
    def change(header, arrays):
        header["facts"]["sizes"] = [5, *[1] * 1000, 4]

    assert "1 to 1,000 layers" in refuses("an", change)


def test_a_file_of_very_many_arrays_is_refused_before_they_are_read(refuses, monkeypatch):
    def change(header, arrays):
        arrays |= {f"{number}.more": np.zeros(1, dtype=np.float32) for number in range(2500)}

    # Looking at the first array would raise a TypeError.
    monkeypatch.setattr("onepos.persistence.schema.NUMBER_TYPES", None)
    assert "a model has at most 2,500" in refuses("frequency", change)


# Item 3: a file opens only if its parts fit.


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("logistic", _array("coef", lambda array: array[:-1]), "(features, labels) = (5, 4), not (4, 4)"),
        ("kernel", _array("landmarks", lambda array: array[:0]), "landmarks"),
        ("an", _array("network.0.bias", lambda array: array.astype(np.float64)), "of type f2 f4, not f8"),
        ("an", _entry("network.0.weight", (0, 0), np.nan), "finite"),
        ("logistic", _entry("intercept", 1, np.inf), "finite"),
        ("an", _entry("scaler.factor", 0, np.nan), "finite"),
        ("named", _set("classes", to=[f"c{j}" for j in range(1_000_000)]), "1,000,000 numbers, one per label"),
        ("named", _set("classes", to=["p", "q", "r", "p"]), "different values"),
        ("named", _set("classes", to=[]), "there are none"),
        ("named", _set("classes", to=["p", "q", "r", None]), "classes.3"),
        ("an", _set("classes_dtype", to="|b1"), "classes must be of type |b1"),
        ("named", _set("feature_names_in", to=["a"]), "5 names"),
        ("an", _set("thresholds", "values", to=[0.5] * 3), "4 numbers, one per label"),
        ("an", _set("thresholds", "values", to=[[0.5] * 4]), "thresholds.values.0 must be a finite number"),
        ("an", _set("thresholds", "values", to=[0.5, 0.5, 0.5, float("nan")]), "thresholds.values.3"),
        ("an", _set("thresholds", "at_least_one", to=1), "true or false"),
        ("an", _set("single_label", to="no"), "true or false"),
        ("an", _set("n_features_in", to=5.0), "a whole number"),
        ("an", _set("facts", "sizes", to=[]), "sizes"),
        ("an", _set("facts", "sizes", to=[5, 3.0, 4]), "facts.sizes.1"),
        ("an", _set("facts", "scale", to="log"), "one of standard, minmax, none"),
        ("an", _set("facts", "history", "facts", "best_epoch", to=[]), "best_epoch"),
        ("an", _set("facts", "surprise", to=1), "facts.surprise is not a field"),
        ("an", _set("surprise", to=1), "surprise is not a field"),
        ("an", _set("params", "device", to="cuba"), "device"),
        ("capped", _set("facts", "n_positives", to=4.0), "n_positives"),
        ("calibrated", _set("calibration", "slope", to=-1.0), "slope"),
        ("calibrated", _set("calibration", "offsets", to=[0.0] * 3), "4 numbers, one per label"),
        ("one class", _set("thresholds", to={"values": [0.5] * 4, "at_least_one": True}), "thresholds"),
        ("forest", _set("facts", "prior_weight", to=0.0), "prior_weight"),
        ("auto", _set("facts", "weights", to=[1.0]), "one for each member"),
        ("auto", _set("facts", "links", 0, to="guess"), "links.0"),
        ("auto", _set("facts", "members", 0, "class", to="AutoClassifier"), "a class that auto combines"),
        ("auto", _set("facts", "members", 0, "params", "surprise", to=1), "surprise"),
        ("auto", _array("0.coef", lambda array: array[:-1]), "the array 0.coef"),
        ("table", _set("table", "id", to=7), "table.id must be a text"),
        ("table", _set("table", "label", to=["tag"]), "table.label must be a text"),
        ("table", _set("table", "separator", to=False), "table.separator"),
        ("table", _set("table", "labels", to=["beach", "city", "night", "sea"]), "table.labels"),
        ("table", _set("table", "facts", "rows", to="300"), "table.facts.rows"),
        ("table", _set("table", "facts", "held_out", "rows", to=None), "held_out.rows"),
        ("table", _set("table", "encoder", "settings", "max_terms", to="all"), "max_terms"),
        ("table", _set("table", "encoder", "kinds", "size", to="picture"), "kinds.size"),
        ("table", _set("table", "encoder", "kinds", "size", to="boolean"), "kind must be boolean, not number"),
        ("table", _set("table", "encoder", "columns", 0, to=None), "columns.0.kind"),
        ("table", _set("table", "encoder", "columns", to=[]), "is not one of this model"),
        ("table", _column("size", "factor", to=0.0), "factor"),
        ("table", _column("size", "weight", to=-1.0), "weight"),
        ("table", _column("size", "surprise", to=1), "surprise is not a field"),
        ("table", _column("colour", "values", to=["red", "red"]), "different values"),
        ("table", _column("colour", "values", to=["red"]), "features"),
        ("table", _column("cast", "n_hashed", to=7), "n_hashed must be 0 or 512"),
        ("table", _column("added", "formats", to=["%c"]), "formats.0"),
        ("table", _column("added", "spread", to=0.0), "spread"),
        ("table", _column("length", "means", to=[]), "as many means and spreads"),
        ("table", _column("words", "terms", to=["a"]), "as many as weights"),
        ("table", _set("table", "encoder", "columns", 0, "kind", to="text"), "columns.0"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_and_named(refuses, model, change, message):
    assert message in refuses(model, change)


@pytest.mark.parametrize("kind", ["F4", "F8_E4M3", "F8_E5M2", "BF16", "C64", "BOOL", "U64"])
def test_types_of_numbers_outside_the_short_list_are_refused(refuses, kind):
    bits = {"F4": 4, "F8_E4M3": 8, "F8_E5M2": 8, "BOOL": 8, "BF16": 16, "C64": 64, "U64": 64}

    def change(header, arrays):
        arrays["intercept"] = Raw(kind, (4,), b"\1" * (bits[kind] // 2))

    assert f"numbers of type {kind}" in refuses("logistic", change)


@pytest.mark.parametrize("device", ["cuda:99", "meta", "cpu:7"])
@pytest.mark.parametrize("name", ["an", "auto networks"])
def test_a_device_of_another_machine_becomes_the_processor(parts, tmp_path, name, device):
    model = parts(name)
    members = [member["params"] for member in model.header["facts"].get("members", [])]
    for params in [model.header["params"], *members]:
        params.update({"device": device} if "device" in params else {})
    path = tmp_path / "forged.onepos"
    path.write_bytes(write_model(model))
    opened = onepos.load(path)
    assert {member.device for member in getattr(opened, "members_", [opened])} == {"cpu"}
    open_forged(path)


def test_a_device_of_this_machine_is_kept(monkeypatch):
    from onepos.training.machine import usable_device

    monkeypatch.setattr(torch, "zeros", lambda *_, device: torch.empty(1))
    assert usable_device("cuda:1") == "cuda:1"


def test_names_of_labels_cannot_ask_for_more_memory_than_they_have_letters(refuses):
    n = 3000

    def change(header, arrays):
        header["classes"] = [*(f"c{j}" for j in range(n - 1)), "x" * 10_000]
        header["classes_dtype"] = "<U10000"
        arrays["frequency"] = np.full(n, 0.5)
        header["thresholds"]["values"] = [0.5] * n

    assert "characters at equal length" in refuses("frequency", change)


def test_a_model_that_could_not_be_opened_is_not_saved(tmp_path):
    model = fitted()["logistic"]()
    model.coef_[0, 0] = np.nan
    with pytest.raises(ModelFileError, match="cannot be saved: the array coef must be finite"):
        model.save(tmp_path / "model.onepos")
    assert not list(tmp_path.iterdir())


# Item 4: the checksum.


def test_a_missing_checksum_is_refused_but_in_files_of_version_0_1(parts, tmp_path):
    header, arrays = parts("logistic")
    del header["checksum"]
    path = tmp_path / "model.onepos"
    path.write_bytes(write_model(Model(header, arrays), checksum=False))
    with pytest.raises(ModelFileError, match="has no checksum"):
        onepos.load(path)
    path.write_bytes(write_model(Model(header | {"format_version": 1}, arrays), checksum=False))
    open_forged(path)


def test_every_class_of_the_registry_that_stores_more_than_a_network_is_declared(parts):
    from onepos.persistence.schema import NETWORK, STORED

    assert set(STORED) - {"NeuralClassifier"} <= {method.class_name for method in METHODS.values()}
    for key in METHODS:
        header, _ = parts(key)
        assert (header["class"] in STORED) or set(header["facts"]) == {
            *("sizes", "dropout", "input_dropout", "scale", "history")
        }
    assert STORED["CRISPClassifier"][0] is NETWORK


# All of it at once: random changes of every kind of file, in a process with a limit on its memory.


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory limit is set by /proc")
def test_forged_files_are_refused_or_work():
    """The long run is `python benchmarks/reliability/fuzz.py --formats forged --cases 20000`."""
    counts = fuzz.run_format("forged", 400, seed=11)
    assert counts["defects"] == []
    assert counts["accepted"] + counts["refused"] == 400
    assert counts["refused"] > 200
    assert counts["accepted"] > 20


def test_the_same_seed_forges_the_same_files(parts):
    from random import Random

    from forged_models import forge

    seeds = {name: write_model(parts(name)) for name in ("an", "table")}
    made = [forge(seeds, Random(number)) for number in range(40)]
    assert made == [forge(seeds, Random(number)) for number in range(40)]
    assert len({content for _, content in made}) > 35
    assert json.loads(json.dumps([what for what, _ in made]))

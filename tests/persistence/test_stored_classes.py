"""A model file opens only if its parts fit together, and is refused in one line.

Every forged file has a checksum that is right, so that the checksum refuses none of them.
"""

import json
import re
import sys
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

import onepos
from forged_models import Model, Raw, fitted, open_forged, read_model, rows, write_model
from onepos._utils import storage
from onepos.exceptions import LabelWarning, ModelFileError
from onepos.persistence import _StoredModel

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "reliability"))  # scripts, not a package

import fuzz


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return a function that gives the header and the arrays of a model by name; each is fitted once."""
    folder, models, found = tmp_path_factory.mktemp("models"), fitted(), {}

    def of(name):
        if name not in found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LabelWarning)
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
        (column,) = (column for column in header["model"]["encoder_"]["_columns"] if column["name"] == name)
        column[field] = to

    return change


def _model(*keys, to):
    """Return the change of one field of the model."""
    return _set("model", *keys, to=to)


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


# Every declared attribute, wrong in every way that its rule knows.

_WRONG_VALUES = (None, {"a": 1}, [], [None], "wrong", -1, 2.5, 1e308, float("nan"), True, [["a", "a"]], ["a", "a"])


def _places(rule, found, path, owner="header"):
    """Yield (class and attribute, rule, path in the header) of all that is declared and stored."""
    if isinstance(rule, storage.Maybe):
        rule = rule.rule
    if isinstance(rule, storage.Part):
        kinds = rule.kinds()
        kind = kinds[found["class"] if len(kinds) > 1 else next(iter(kinds))]()
        rules, owner = storage.stored_rules(kind) | rule._changes, kind.__name__
        inner = [(rules[name], name) for name in found if name != "class"]
    elif isinstance(rule, storage.Record):
        inner = [(rule._rule(name, storage.Place({})), name) for name in found]
    elif isinstance(rule, storage.List):
        inner = [(rule.rule, number) for number in range(min(len(found), 2))]
    else:
        return
    for inner_rule, name in inner:
        yield f"{owner}.{name}", inner_rule, (*path, name)
        if found[name] is not None:
            yield from _places(inner_rule, found[name], (*path, name), f"{owner}.{name}")


def _corruptions(rule, found, place, arrays):
    """Yield what the rule of a place refuses, as a name and the changes of header and arrays."""
    may_be_none = type(rule) is storage.Maybe
    inner = rule.rule if isinstance(rule, storage.Maybe) else rule
    if not isinstance(rule, storage.IfSet) and not isinstance(place[-1], int):
        yield "missing", "delete", None
    if isinstance(inner, storage.Value):
        for value in _WRONG_VALUES:
            if not inner.fits(value) and not (value is None and may_be_none):
                yield f"{value!r}", value, None
        return
    objects = [] if _is_open(inner) else [{"surprise": 1}]
    if not (isinstance(inner, storage.List) and _is_open(inner.rule)):
        objects.append([{}])
    numbers = [] if isinstance(inner, storage.Length) else [7]
    for value in (*objects, *numbers, "wrong", *([] if may_be_none else [None])):
        yield f"{value!r}", value, None
    name = ".".join(map(str, place[1:]))
    if not isinstance(inner, storage.Array) or found is None:
        return
    array = arrays[name]
    yield "another axis", found, (name, array[None])
    yield "another type", found, (name, array.astype(np.int8))
    yield "no rows", found, (name, array[:0])
    beyond = [inner.low - 1, 1e30 if inner.high == storage.HUGE else inner.high + 1]
    beyond = [value for value in beyond if abs(value) < 1e20] if array.dtype.kind == "f" else []
    for value in ([np.nan, np.inf] if array.dtype.kind == "f" else []) + beyond:
        wrong = array.copy()
        wrong.flat[0] = value
        yield f"{value}", found, (name, wrong)


def _is_open(rule):
    """Whether a rule takes a dict of any names, an empty one too."""
    return isinstance(rule, storage.Record) and "*" in rule.fields


def _refusal(path):
    """Return why a file is refused; two lines if it is opened."""
    try:
        onepos.load(path)
    except ModelFileError as error:
        return str(error)
    return "it\nopened"


@pytest.fixture(scope="module")
def seen():
    """Attributes that were tried on an earlier model."""
    return set()


@pytest.mark.parametrize("name", fitted())
def test_every_declared_attribute_is_refused_if_it_is_wrong(parts, tmp_path, name, seen):
    header, arrays = parts(name)
    path = tmp_path / "forged.onepos"
    for what, rule, place in _places(_StoredModel(), header["model"], ("model",)):
        if what in seen:  # of another model
            continue
        seen.add(what)
        if rule is storage.JSON:
            continue
        found = header["model"]
        for key in place[1:]:
            found = found[key]
        for how, value, array in _corruptions(rule, found, place, arrays):
            forged, forged_arrays = parts(name)
            inner = forged
            for key in place[:-1]:
                inner = inner[key]
            if value == "delete" and how == "missing":
                if "*" in getattr(rule, "fields", ()) or what.count(".") > 1:
                    continue  # an optional field of a record
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            if array is not None:
                forged_arrays[array[0]] = np.ascontiguousarray(array[1])
            path.write_bytes(write_model(Model(forged, forged_arrays)))
            assert "\n" not in _refusal(path), f"{what} was {how}"


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("trees_.roots", 0, 10**6, "roots must be from 0"),
        ("trees_.roots", 0, -1, "roots must be from 0"),
        ("trees_.feature", 0, 5, "feature must be from -1 to 4"),
        ("trees_.feature", 0, -2, "feature must be from -1 to 4"),
        ("trees_.threshold", 0, np.nan, "threshold must be finite"),
        ("trees_.right", 0, 0, "a child after its parent"),  # a tree that never ends
        ("trees_.right", 0, 10**6, "a child after its parent"),
        ("trees_.right", -1, 10**6, "right must number the leaves"),
        ("trees_.indptr", 0, 1, "indptr must rise from 0"),
        ("trees_.indptr", 1, 0, "indptr must give every leaf a label"),
        ("trees_.labels", 0, 4, "labels must be from 0 to 3"),
        ("trees_.counts", 0, 0, "counts must be from 1e-100"),
        ("frequency_", 0, 0.0, "frequency_ must be from 1e-100 to 1"),
    ],
)
def test_trees_are_checked_before_they_are_walked(refuses, name, place, value, message):
    assert message in refuses("forest", _entry(name, place, value))


@pytest.mark.parametrize("name", ["roots", "feature", "threshold", "right", "indptr", "labels", "counts"])
def test_arrays_of_trees_have_their_lengths_and_types(refuses, name):
    name = f"trees_.{name}"
    assert name in refuses("forest", _array(name, lambda array: array[:, None]))
    assert f"{name} must be of type" in refuses("forest", _array(name, lambda array: array.astype(np.int64)))
    assert refuses("forest", _array(name, lambda array: array[:-1] if name != "trees_.roots" else array[:0]))


def _layers(*shapes):
    """Return the change of a network to layers of these shapes, (n_outputs, n_inputs)."""

    def change(header, arrays):
        for name in [name for name in arrays if name.startswith("network_.")]:
            del arrays[name]
        for j, shape in enumerate(shapes):
            arrays[f"network_.weights.{j}"] = np.ones(shape, np.float32)
            arrays[f"network_.biases.{j}"] = np.ones(shape[0], np.float32)
        for name in ("weights", "biases"):
            header["model"]["network_"][name] = ["array"] * len(shapes)

    return change


@pytest.mark.parametrize(
    "shapes", [[], [(3, 5), (4, 2)], [(1, 5), *[(1, 1)] * 1000, (4, 1)], [(3, 5), (4, 3), (10**6, 1)]]
)
def test_layers_are_compared_before_they_are_built(refuses, monkeypatch, shapes):
    def build(*_):
        raise AssertionError("a layer was built")

    assert refuses("an", _model("class", to="none"))  # the model to be changed is fitted by now
    monkeypatch.setattr("onepos.training.networks.linear", build)
    assert "network_" in refuses("an", _layers(*shapes))


@pytest.mark.parametrize("shapes", [[(3, 6), (4, 3)], [(3, 5), (5, 3)]])
def test_a_network_of_another_problem_is_refused(refuses, shapes):
    assert "features as inputs and labels as outputs" in refuses("an", _layers(*shapes))


def test_a_file_of_very_many_arrays_is_refused_before_they_are_read(refuses, monkeypatch):
    def change(header, arrays):
        arrays |= {f"{number}.more": np.zeros(1, dtype=np.float32) for number in range(2500)}

    # Looking at the first array would raise a TypeError.
    monkeypatch.setattr("onepos.persistence.NUMBER_TYPES", None)
    assert "a model has at most 2,500" in refuses("frequency", change)


def _label(*names, dtype="<U9"):
    return _model("classes_", to={"names": list(names), "dtype": dtype})


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("logistic", _array("coef_", lambda array: array[:-1]), "(features, labels) = (5, 4), not (4, 4)"),
        ("kernel", _array("landmarks_", lambda array: array[:0]), "landmarks_"),
        ("an", _array("network_.biases.0", lambda array: array.astype(np.float64)), "of type f2 f4, not f8"),
        ("an", _entry("thresholds_", 0, np.nan), "thresholds_ must be finite"),
        ("an", _entry("thresholds_", 0, -5.0), "thresholds_ must be from 0 to 1"),
        ("an", _entry("thresholds_", 0, 1e308), "thresholds_ must be from 0 to 1"),
        ("named", _label(*(f"c{j}" for j in range(1_000_000))), "thresholds_"),
        ("named", _label("p", "q", "r", "p"), "names that differ"),
        ("named", _label("\u00e9", "e\u0301", "r", "s"), "names that differ"),
        ("named", _label("p", "q", "r", ""), "not empty"),
        ("named", _label("p", "q", "r", " "), "not empty"),
        ("named", _label("p", "q", "r", "\udcff"), "halves of characters"),
        ("named", _label(), "names must be a list"),
        ("named", _label("p", "q", "r", None), "not None"),
        ("named", _label("p", "q", "r", float("nan"), dtype="object"), "not nan"),
        ("an", _model("classes_", "dtype", to="|b1"), "classes_ must be of type |b1"),
        ("named", _model("feature_names_in_", to=["a"]), "feature_names_in_ must be 5 features, not 1"),
        ("an", _model("n_features_in_", to=5.0), "a whole number"),
        ("an", _model("history_", "facts", "best_epoch", to=[]), "best_epoch"),
        ("an", _model("surprise", to=1), "surprise is not a field"),
        ("an", _set("surprise", to=1), "surprise is not a field"),
        ("an", _model("_params", "device", to="cuba"), "device"),
        ("an", _model("_params", "network", to="[" * 100_000), "network"),
        ("an", _model("class", to="TableModel"), "labels_ is missing"),
        ("capped", _model("n_positives_", to=4.0), "n_positives_"),
        ("one class", _set("model", "at_least_one_", to=True), "must come together"),
        ("auto", _array("weights_", lambda array: array[:1]), "weights_"),
        ("auto", _array("weights_", lambda array: array / 2), "whose sum is 1"),
        ("auto", _model("links_", 0, to="odds"), "links_"),
        ("auto", _model("members_", 0, "class", to="AutoClassifier"), "members_.0.class"),
        ("auto", _model("members_", 0, "_params", "surprise", to=1), "surprise"),
        ("auto", _array("members_.0.coef_", lambda array: array[:-1]), "members_.0.coef_"),
        ("table", _model("labels_", to=["beach", "city", "night", "sea"]), "labels_"),
        ("table", _model("facts_", "held_out", "rows", to=None), "held_out.rows"),
        ("table", _model("encoder_", "kinds_", "size", to="image"), "columns must be those of kinds_"),
        ("table", _model("encoder_", "_columns", to=[]), "columns must be those of kinds_"),
        ("table", _column("colour", "values", to=["red"]), "features"),
        ("table", _column("cast", "n_hashed", to=7), "n_hashed must be 0 or 512"),
        ("table", _column("length", "means", to=[]), "means must be 1 units, not 0"),
        ("table", _column("words", "terms", to=["a"]), "idf must be of shape (terms) = (1)"),
        ("table", _column("size", "class", to="TextColumn"), "terms is missing"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_and_named(refuses, model, change, message):
    assert message in refuses(model, change)


@pytest.mark.parametrize("kind", ["F4", "F8_E4M3", "F8_E5M2", "BF16", "C64", "BOOL", "U64"])
def test_types_of_numbers_outside_the_short_list_are_refused(refuses, kind):
    bits = {"F4": 4, "F8_E4M3": 8, "F8_E5M2": 8, "BOOL": 8, "BF16": 16, "C64": 64, "U64": 64}

    def change(header, arrays):
        arrays["intercept_"] = Raw(kind, (4,), b"\1" * (bits[kind] // 2))

    assert f"numbers of type {kind}" in refuses("logistic", change)


@pytest.mark.parametrize("device", ["cuda:99", "meta", "cpu:7"])
@pytest.mark.parametrize("name", ["an", "auto networks"])
def test_a_device_of_another_machine_becomes_the_processor(parts, tmp_path, name, device):
    model = parts(name)
    estimator = model.header["model"]
    for params in [estimator["_params"], *(member["_params"] for member in estimator.get("members_", []))]:
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
        names = [*(f"c{j}" for j in range(n - 1)), "x" * 10_000]
        header["model"]["classes_"] = {"names": names, "dtype": "<U10000"}
        arrays["frequency_"], arrays["thresholds_"] = np.full(n, 0.5), np.full(n, 0.5)

    assert "characters at equal length" in refuses("frequency", change)


def test_a_model_that_could_not_be_opened_is_not_saved(tmp_path):
    model = fitted()["logistic"]()
    model.coef_[0, 0] = np.nan
    with pytest.raises(ModelFileError, match="coef_ must be finite"):
        model.save(tmp_path / "model.onepos")
    assert not list(tmp_path.iterdir())


def test_columns_may_have_the_names_of_rules(tmp_path):
    frame = pd.DataFrame(
        {"b": [1.0, 2.0] * 9, "*": [0.5, 1.0, 3.0] * 6, "class": ["x", "y"] * 9, "a.0*": [2.0, 1.0] * 9}
    )
    model = onepos.TableModel(method="frequency").fit(frame.assign(tag=["*", "kinds_", "."] * 6), label="tag")
    again = onepos.load(model.save(tmp_path / "model.onepos"))
    assert list(again.encoder_.kinds_.items()) == list(model.encoder_.kinds_.items())
    pd.testing.assert_frame_equal(again.predict_proba(frame), model.predict_proba(frame))


def test_a_refusal_is_one_line_whatever_the_file_holds(refuses):
    message = refuses("an", _model("a\nb\x1b[31m\u2028", to=1))
    assert message.isprintable()
    assert refuses("an", _model("class", to="\n" * 1000)).isprintable()


def test_a_missing_checksum_is_refused(parts, tmp_path):
    path = tmp_path / "model.onepos"
    path.write_bytes(re.sub(rb'("onepos": ?")[0-9a-f]', rb"\1x", write_model(parts("logistic"))))
    with pytest.raises(ModelFileError, match="has no checksum"):
        onepos.load(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "[" * 100_000 + "]" * 100_000 + "}", "[" * 900, "NaN"])
def test_a_header_of_brackets_is_refused(parts, tmp_path, text):
    path = tmp_path / "model.onepos"
    path.write_bytes(write_model(Model(text, parts("logistic").arrays)))
    with pytest.raises(ModelFileError, match="not a onepos model"):
        onepos.load(path)


def test_a_class_that_is_not_registered_is_not_saved(tmp_path):
    class Own(onepos.FrequencyClassifier):
        pass

    model = Own().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])
    with pytest.raises(ModelFileError, match="Own"):
        model.save(tmp_path / "model.onepos")


class Weighed(onepos.LogisticClassifier):
    """A method of another package that learns one thing more."""

    _stored: ClassVar[storage.Rules] = {
        "spread_": storage.Array("labels", "f8", 0),
        "names_": storage.Maybe(storage.List(storage.TEXT, "labels")),
    }

    def fit(self, X, y, **given):
        super().fit(X, y, **given)
        self.spread_, self.names_ = self.coef_.std(axis=0).astype(np.float64), None
        return self


def test_a_method_of_another_package_stores_what_it_declares(tmp_path, monkeypatch):
    point = EntryPoint("weighed", f"{__name__}:Weighed", "onepos.methods")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Weighed.__module__])
    monkeypatch.setattr("onepos.methods.registry.entry_points", lambda group: [point])
    model = Weighed(l2=1.0).fit(*rows(40))
    path = model.save(tmp_path / "model.onepos")
    again = onepos.load(path)
    assert type(again) is Weighed
    assert np.array_equal(again.spread_, model.spread_)
    assert again.names_ is None
    assert np.array_equal(again.predict_proba(rows(9)[0]), model.predict_proba(rows(9)[0]))
    header, arrays = read_model(path.read_bytes())
    path.write_bytes(write_model(Model(header, arrays | {"spread_": -arrays["spread_"]})))
    with pytest.raises(ModelFileError, match="spread_ must be from 0"):
        onepos.load(path)


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

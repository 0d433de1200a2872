"""What a model file holds: one declaration per class of model, checked whole before anything is built.

``check`` compares a header and the arrays beside it with the declarations of this module: fields by name and JSON type,
arrays by name, shape and dtype, numbers finite and in range, indices within what they index. Methods and tables
restore themselves from what passed and check nothing again. ``save`` makes the same check before it writes.

To store more:

- A fact: add a line to the rule of its class in ``STORED``; ``rules`` explains the notation. Write ``"name?1"`` if
  files of format 1 lack it, and give the code that restores it a default.
- An array: add an ``Array`` to the entry of its class in ``STORED``, or to the function named there.
- A method that stores more than its network: add an entry to ``STORED``.
- Something of a table: see ``table_schema``.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.persistence.rules import TINY, Array, Arrays, Part, Rule, between, check_json, one_of, wrong

FORMAT = "onepos-model"
#: Format 1 is that of onepos 0.1. Its files may lack a checksum and the fields marked ``?1``.
FORMAT_VERSION = 2
#: Types of numbers that any array may have, as safetensors names them.
NUMBER_TYPES = frozenset({"F16", "F32", "F64", "I16", "I32", "I64", "U8", "U16", "U32"})

#: Levels of lists and objects in the header.
_DEEPEST = 32
#: Arrays of a file, layers of a network, members of a pool. Each costs time to build, however few numbers it has.
MOST_ARRAYS, _MOST_LAYERS, _MOST_MEMBERS = 2_500, 1_000, 500
#: Characters of all label names in an array of texts, where each name takes the room of the longest.
_MOST_CHARACTERS = 1 << 24
#: Truth values, numbers and texts, as ``dtype.str`` writes them.
_PLAIN_TYPE = re.compile(r"[<>|=][biufU][0-9]{1,9}")

_WEIGHTS = {"coef": Array("features labels"), "intercept": Array("labels")}
_FREQUENCY = {"frequency": Array("labels", "f8", TINY, 1)}


def _history(records: Rule) -> Rule:
    return {"records": [records], "facts": {"best_*": "measured", "*": "any"}}


def _scaler(part: Part) -> dict[str, Array]:
    scaled = part.facts.get("scale", "none") != "none"
    return {name: Array("features", "f8") for name in ("scaler.shift", "scaler.factor") if scaled}


def _network(part: Part, own: dict[str, Array] | None = None) -> None:
    facts = part.facts
    sizes, dropped = facts["sizes"], bool(facts["dropout"])
    if not 2 <= len(sizes) <= _MOST_LAYERS + 1:
        raise part.wrong("sizes", f"the sizes of 1 to {_MOST_LAYERS:,} layers", sizes)
    if (sizes[0], sizes[-1]) != (part.sizes["features"], part.sizes["labels"]):
        ends = f"{part.sizes['features']:,} features to {part.sizes['labels']:,} labels"
        raise part.wrong("sizes", f"sizes from {ends}", f"from {sizes[0]:,} to {sizes[-1]:,}")
    first = int(bool(facts.get("input_dropout", 0.0)))
    expected = _scaler(part) | (own or {})
    for layer, (n_inputs, n_outputs) in enumerate(pairwise(sizes)):
        name = f"network.{first + (2 + dropped) * layer}"
        expected[f"{name}.weight"] = Array(f"{n_outputs} {n_inputs}", "f2 f4")
        expected[f"{name}.bias"] = Array(f"{n_outputs}", "f2 f4")
    part.expect(expected)


def _crisp(part: Part) -> None:
    _network(part, {"class_priors": Array("labels", "f8", 0, 1)})


def _capped(part: Part) -> None:
    most = between(TINY, part.sizes["labels"] - 0.5)
    check_json(most, part.facts["n_positives"], f"{part.path}.n_positives", part.version)
    _network(part)


def _forest(part: Part) -> None:
    """Check also that every walk from a root ends in a leaf, and that every leaf has labels."""
    own = {
        "roots": Array("trees", "i4", 0),
        "feature": Array("nodes", "i2 i4", -1, part.sizes["features"] - 1),
        "threshold": Array("nodes", "f4"),
        "right": Array("nodes", "i4", 0),
        "indptr": Array("leaves+1", "i4"),
        "labels": Array("entries", "u1 u2 u4", 0, part.sizes["labels"] - 1),
        "counts": Array("entries", "u1 u2 u4 f4 f8", TINY),
    }
    part.expect(_FREQUENCY | own)
    part.check_rows("indptr", "labels")
    right, inner = part.arrays["right"], part.arrays["feature"] >= 0
    n_nodes, n_leaves = part.sizes["nodes"], part.sizes["leaves"]
    if (part.arrays["roots"] >= n_nodes).any():
        raise ValueError(f"{part.prefix}roots must be nodes, of which there are {n_nodes:,}")
    # The left child of a node is the next one.
    if (right[inner] <= np.flatnonzero(inner) + 1).any() or (right[inner] >= n_nodes).any():
        raise ValueError(f"{part.prefix}right must put a child after its parent and within {n_nodes:,} nodes")
    if (right[~inner] >= n_leaves).any():
        raise ValueError(f"{part.prefix}right must number the leaves, of which there are {n_leaves:,}")
    if (np.diff(part.arrays["indptr"]) < 1).any():
        raise ValueError(f"{part.prefix}indptr must give every leaf a label")


def _auto(part: Part) -> None:
    from onepos.methods.auto.candidates import STORED as KEYS
    from onepos.methods.registry import METHODS

    facts, n_members = part.facts, len(part.facts["members"])
    if not 1 <= n_members <= _MOST_MEMBERS:
        raise part.wrong("members", f"1 to {_MOST_MEMBERS:,} members", facts["members"])
    for name in ("weights", "sharpness", "links"):
        if len(facts.get(name, facts["members"])) != n_members:
            raise part.wrong(name, f"a list of {n_members:,}, one for each member", facts[name])
    if abs(sum(facts["weights"]) - 1.0) > 1e-6:
        raise part.wrong("weights", "shares whose sum is 1", sum(facts["weights"]))
    arrays: dict[str, Arrays] = {str(number): {} for number in range(n_members)}
    for name, array in part.arrays.items():
        number, _, own = name.partition(".")
        if number not in arrays:
            raise ValueError(f"the array {name[:80]} is not one of a member")
        arrays[number][own] = array
    known = {METHODS[key].class_name: METHODS[key].load_class() for key in KEYS}
    for (number, own_arrays), member in zip(arrays.items(), facts["members"], strict=True):
        path = f"{part.path}.members.{number}"
        if member["class"] not in known:
            raise wrong(f"{path}.class", "a class that auto combines", member["class"])
        own_part = Part(f"{path}.facts", part.version, member["facts"], own_arrays, dict(part.sizes), f"{number}.")
        check_part(known[member["class"]], own_part)


_SCALE: Rule = {"scale": one_of("standard", "minmax", "none")}
_LINEAR: Rule = _SCALE | {"l2": "not negative", "n_iter": "count"}
NETWORK: Rule = _SCALE | {"sizes": ["size"], "dropout input_dropout?1": "share", "history": _history({"*": "measured"})}

#: By name of a class: the rule of its facts; and its arrays beside those of the scaler, or the function that checks
#: its arrays and how facts and arrays fit. A class that is not here stores what the nearest of its bases stores.
STORED: dict[str, tuple[Rule, dict[str, Array] | Callable[[Part], None]]] = {
    "NeuralClassifier": (NETWORK, _network),
    "CappedSoftmaxClassifier": (NETWORK | {"n_positives": "positive"}, _capped),
    "CRISPClassifier": (NETWORK, _crisp),
    "FrequencyClassifier": ({}, {"frequency": Array("labels", "f8", TINY, 1 - 1e-16)}),
    "LogisticClassifier": (_LINEAR | {"n_positives": "positive"}, _WEIGHTS),
    "ForestClassifier": ({"prior_weight n_positives": "positive", "min_samples_leaf": "size"}, _forest),
    "KernelClassifier": (
        _SCALE | {"gamma ridge n_positives": "positive"},
        _FREQUENCY | {"landmarks": Array("landmarks features"), "weights": Array("landmarks labels")},
    ),
    "AutoClassifier": (
        {
            "members": [{"class": "text", "params": {"*": "any"}, "facts": "any"}],
            "weights": ["share"],
            "sharpness": ["not negative"],
            "links?1": [one_of("shares", "probability", "odds", "standardized")],
            "n_positives": "positive",
            "comparison?1": {"rows?": "count", "methods?": {"*": {"*": "measured"}}},
            "history": _history({"method": "text", "settings": {"*": "any"}, "weight *": "measured"}),
        },
        _auto,
    ),
}

#: What a fit noted about its label sets.
NOTES: Rule = {"thresholds_from_": "text", "n_positives_": "positive", "n_positives_from_": "text"}
#: Start of the names of a table's arrays.
TABLE_PREFIX = "table."

HEADER: Rule = {
    "format": one_of(FORMAT),
    "onepos_version class classes_dtype checksum?": "text",
    "format_version n_features_in": "size",
    "single_label": "truth",
    "params": {"*": "any"},
    "classes": ["name"],
    "feature_names_in": (None, ["text"]),
    "facts table?": "any",
    "notes?1": {f"{name}?": rule for name, rule in NOTES.items()},
    "thresholds?": {"values": ["finite"], "at_least_one": "truth"},
    "calibration?": {"slope spread": "positive", "offsets": ["finite"], "n_rows": "count"},
}


def check(kind: type, header: dict[str, Any], arrays: Arrays) -> None:
    """Raise ValueError unless header and arrays are those of a model that can be built."""
    version = header["format_version"]
    check_json(HEADER, header, "", version)
    classes, n_features = header["classes"], header["n_features_in"]
    if not classes:
        raise ValueError("classes must be the names of the labels; there are none")
    if len(set(classes)) < len(classes):
        raise wrong("classes", "a list of different values", classes)
    class_array(classes, header["classes_dtype"])
    names = header["feature_names_in"]
    if names is not None and len(names) != n_features:
        raise wrong("feature_names_in", f"{n_features:,} names", names)
    for name, field in (("thresholds", "values"), ("calibration", "offsets")):
        if name in header and (header["single_label"] or len(header[name][field]) != len(classes)):
            raise wrong(f"{name}.{field}", f"{len(classes):,} numbers, one per label", header[name][field])
    sizes = {"features": n_features, "labels": len(classes)}
    own = {name: array for name, array in arrays.items() if not name.startswith(TABLE_PREFIX)}
    check_part(kind, Part("facts", version, header["facts"], own, dict(sizes)))
    rest = {name.removeprefix(TABLE_PREFIX): arrays[name] for name in arrays.keys() - own.keys()}
    if "table" in header:
        from onepos.persistence.table_schema import TABLE, check_columns  # pandas comes with it

        table = header["table"]
        check_json(TABLE, table, "table", version)
        if table["labels"] != [str(name) for name in classes]:
            raise wrong("table.labels", "the names of the classes", table["labels"])
        check_columns(Part("table.encoder", version, table["encoder"], rest, sizes, TABLE_PREFIX))
    elif rest:
        raise ValueError(f"the array {TABLE_PREFIX}{min(rest)[:80]} is not one of this model")


def check_part(kind: type, part: Part) -> None:
    """Check facts and arrays of one estimator. A class outside this library checks what it alone stores."""
    name = next((base.__name__ for base in kind.__mro__ if base.__name__ in STORED), None)
    if name is not None:
        rule, arrays = STORED[name]
        check_json(rule, part.facts, part.path, part.version)
        if callable(arrays):
            arrays(part)
        else:
            part.expect(_scaler(part) | arrays)


def too_deep(value: Any) -> bool:
    """Whether lists and objects are nested deeper than any model has them."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def class_array(names: list[Any], dtype: str) -> NDArray[Any]:
    """Return label names as they were: numbers, texts, or a mixture of them as objects."""
    if dtype == "object":
        return np.array(names, dtype=object)
    if not _PLAIN_TYPE.fullmatch(dtype):  # NumPy parses more, some of it as Python
        raise ValueError(f"classes_dtype must be the type of numbers or texts, not {dtype[:80]}")
    try:
        kind = np.dtype(dtype)
        if kind.kind == "U":
            longest = max(len(name) if isinstance(name, str) else 0 for name in names)
            if len(names) * longest > _MOST_CHARACTERS:
                raise ValueError(f"classes must not have more than {_MOST_CHARACTERS:,} characters at equal length")
            kind = np.dtype(str)
        made = np.array(names, dtype=kind)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"classes must be of type {dtype}: {error}") from error
    if made.tolist() != names:
        raise ValueError(f"classes must be of type {dtype}; some are not")
    return made

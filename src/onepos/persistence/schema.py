"""What a model file holds: one declaration per class of model, checked whole before anything is built.

``check`` compares a header and the arrays beside it with the declarations of this module: fields by name and JSON type,
arrays by name, shape and dtype, numbers finite and in range, indices within what they index. Methods and tables
restore themselves from what passed and check nothing again. ``save`` makes the same check before it writes.

To store more:

- A fact: add a line to the ``record`` of its class in ``STORED``. Name it in ``older`` if files of format 1 lack it,
  and give the code that restores it a default.
- An array: add an ``Array`` to the function that lists the arrays of its class.
- A method that stores more than its network: add an entry to ``STORED``.
- Something of a table: see ``table_schema``.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos.persistence.rules import (
    ANY,
    COUNT,
    FINITE,
    MEASURED,
    NAME,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SIZE,
    TEXTUAL,
    TINY,
    TRUTH,
    Array,
    Arrays,
    Part,
    Place,
    Rule,
    between,
    by_name,
    listed,
    one_of,
    optional,
    record,
)

FORMAT = "onepos-model"
#: Format 1 is that of onepos 0.1. Its files may lack a checksum and the fields that are named in ``older``.
FORMAT_VERSION = 2
#: Types of numbers that any array may have, as safetensors names them.
NUMBER_TYPES = frozenset({"F16", "F32", "F64", "I16", "I32", "I64", "U8", "U16", "U32"})

#: Levels of lists and objects in the header.
_DEEPEST = 32
#: Layers of a network, and members of a pool: each costs time to build, however few numbers it has.
_MOST_LAYERS, _MOST_MEMBERS = 1_000, 2_000
#: Characters of all label names in an array of texts, which gives every name the room of the longest.
_MOST_CHARACTERS = 1 << 24
#: Truth values, numbers and texts, as ``dtype.str`` writes them.
_PLAIN_TYPE = re.compile(r"[<>|=][biufU][0-9]{1,9}")

_WEIGHTS = {"coef": Array("features labels"), "intercept": Array("labels")}
_FREQUENCY = {"frequency": Array("labels", "f8", TINY, 1)}


def _history(records: Rule) -> Rule:
    return record({"records": listed(records), "facts": _history_facts})


def _history_facts(place: Place, value: Any) -> None:
    by_name(ANY)(place, value)
    for name, found in value.items():
        if name.startswith("best_"):
            MEASURED(place.at(name), found)


def _scaler(part: Part) -> dict[str, Array]:
    if part.facts["scale"] == "none":
        return {}
    return {"scaler.shift": Array("features", "f8"), "scaler.factor": Array("features", "f8")}


def _network(part: Part) -> dict[str, Array]:
    facts = part.facts
    sizes, dropped = facts["sizes"], bool(facts["dropout"])
    if not 2 <= len(sizes) <= _MOST_LAYERS + 1:
        raise part.place.at("sizes").wrong(f"the sizes of 1 to {_MOST_LAYERS:,} layers", sizes)
    if (sizes[0], sizes[-1]) != (part.sizes["features"], part.sizes["labels"]):
        ends = f"{part.sizes['features']:,} features to {part.sizes['labels']:,} labels"
        raise part.place.at("sizes").wrong(f"sizes from {ends}", f"from {sizes[0]:,} to {sizes[-1]:,}")
    first = int(bool(facts.get("input_dropout", 0.0)))
    expected = {}
    for layer, (n_inputs, n_outputs) in enumerate(pairwise(sizes)):
        name = f"network.{first + (2 + dropped) * layer}"
        expected[f"{name}.weight"] = Array(f"{n_outputs} {n_inputs}", "f2 f4")
        expected[f"{name}.bias"] = Array(f"{n_outputs}", "f2 f4")
    return _scaler(part) | expected


def _capped(part: Part) -> dict[str, Array]:
    most = part.sizes["labels"] - 0.5
    between(TINY, most)(part.place.at("n_positives"), part.facts["n_positives"])
    return _network(part)


def _d2ml(part: Part) -> dict[str, Array]:
    if part.facts["gamma"] is None:
        return _scaler(part) | _WEIGHTS
    weights = {"coef": Array("landmarks labels"), "intercept": Array("labels")}
    return _scaler(part) | weights | part.matrix("landmarks", "landmarks", "features")


def _mlml(part: Part) -> dict[str, Array]:
    # Rows of zeros have a column of their own where directions are compared.
    part.sizes["columns"] = part.sizes["features"] + (part.facts["metric"] == "cosine")
    own = {"scales": Array("rows", low=0), "soft": Array("rows labels")}
    return _scaler(part) | own | part.matrix("features", "rows", "columns")


def _kernel(part: Part) -> dict[str, Array]:
    own = {"landmarks": Array("landmarks features"), "weights": Array("landmarks labels")}
    return _scaler(part) | _FREQUENCY | own


def _forest(part: Part) -> dict[str, Array]:
    return _FREQUENCY | {
        "roots": Array("trees", "i4", 0),
        "feature": Array("nodes", "i2 i4", -1, part.sizes["features"] - 1),
        "threshold": Array("nodes", "f4"),
        "right": Array("nodes", "i4", 0),
        "indptr": Array("leaves+1", "i4"),
        "labels": Array("entries", "u1 u2 u4", 0, part.sizes["labels"] - 1),
        "counts": Array("entries", "u1 u2 u4 f4 f8", TINY),
    }


def _check_trees(part: Part) -> None:
    """Check that every walk from a root ends in a leaf, and that every leaf has labels."""
    part.check_rows("indptr", "labels")
    roots, right, n_nodes, n_leaves = (
        part.arrays["roots"],
        part.arrays["right"],
        *map(part.sizes.get, ("nodes", "leaves")),
    )
    inner = part.arrays["feature"] >= 0
    if (roots >= n_nodes).any():
        raise ValueError(f"{part.prefix}roots must be nodes, of which there are {n_nodes:,}")
    # The left child of a node is the next one.
    if (right[inner] <= np.flatnonzero(inner) + 1).any() or (right[inner] >= n_nodes).any():
        raise ValueError(f"{part.prefix}right must put a child after its parent and within {n_nodes:,} nodes")
    if (right[~inner] >= n_leaves).any():
        raise ValueError(f"{part.prefix}right must number the leaves, of which there are {n_leaves:,}")
    if (np.diff(part.arrays["indptr"]) < 1).any():
        raise ValueError(f"{part.prefix}indptr must give every leaf a label")


def _auto(part: Part) -> dict[str, Array]:
    facts, n_members = part.facts, len(part.facts["members"])
    if not 1 <= n_members <= _MOST_MEMBERS:
        raise part.place.at("members").wrong(f"1 to {_MOST_MEMBERS:,} members", facts["members"])
    for name in ("weights", "sharpness", "links"):
        if len(facts.get(name, facts["members"])) != n_members:
            raise part.place.at(name).wrong(f"a list of {n_members:,}, one for each member", facts[name])
    if abs(sum(facts["weights"]) - 1.0) > 1e-6:
        raise part.place.at("weights").wrong("shares whose sum is 1", sum(facts["weights"]))
    arrays: dict[str, Arrays] = {str(number): {} for number in range(n_members)}
    for name, array in part.arrays.items():
        number, _, own = name.partition(".")
        if number not in arrays:
            raise ValueError(f"the array {name[:80]} is not one of a member")
        arrays[number][own] = array
    known = members()
    for (number, own_arrays), member in zip(arrays.items(), facts["members"], strict=True):
        place = part.place.at(f"members.{number}")
        if member["class"] not in known:
            raise place.at("class").wrong("a class that auto combines", member["class"])
        own_part = Part(place.at("facts"), member["facts"], own_arrays, dict(part.sizes), f"{number}.")
        check_part(known[member["class"]], own_part)
    part.arrays = {}  # all are the members'
    return {}


def members() -> dict[str, type]:
    """Return the classes that a pool may have as members, by name."""
    from onepos.methods.auto.candidates import STORED as KEYS
    from onepos.methods.registry import METHODS

    return {METHODS[key].class_name: METHODS[key].load_class() for key in KEYS}


class Stored(NamedTuple):
    """What a class stores: the rule of its facts, its arrays as they follow from these, and what else must hold."""

    facts: Rule
    arrays: Callable[[Part], dict[str, Array]]
    check: Callable[[Part], None] = lambda part: None


_SCALE: dict[str, Rule] = {"scale": one_of("standard", "minmax", "none")}
_LINEAR: dict[str, Rule] = _SCALE | {"l2": NOT_NEGATIVE, "n_iter": COUNT}
_CLASSICAL: dict[str, Rule] = _SCALE | {"n_iter": COUNT, "history": _history(by_name(MEASURED))}
_LAYERS: dict[str, Rule] = _SCALE | {
    "sizes": listed(SIZE),
    "dropout": between(0, 1),
    "input_dropout": between(0, 1),
    "history": _history(by_name(MEASURED)),
}
#: Of methods that store a network and nothing else; files of the first versions have no input dropout.
NETWORK = Stored(record(_LAYERS, older=("input_dropout",)), _network)

#: By name of a class. A class that is not here stores what the nearest of its bases stores.
STORED: dict[str, Stored] = {
    "NeuralClassifier": NETWORK,
    "FrequencyClassifier": Stored(record({}), lambda _: {"frequency": Array("labels", "f8", TINY, 1 - 1e-16)}),
    "LinearClassifier": Stored(record(_LINEAR), lambda part: _scaler(part) | _WEIGHTS),
    "LogisticClassifier": Stored(record(_LINEAR | {"n_positives": POSITIVE}), lambda part: _scaler(part) | _WEIGHTS),
    "ForestClassifier": Stored(
        record({"prior_weight": POSITIVE, "min_samples_leaf": SIZE, "n_positives": POSITIVE}), _forest, _check_trees
    ),
    "KernelClassifier": Stored(
        record(_SCALE | {"gamma": POSITIVE, "ridge": POSITIVE, "n_positives": POSITIVE}), _kernel
    ),
    "GLOCALClassifier": Stored(
        record(_CLASSICAL | {"feature_l2": NOT_NEGATIVE}),
        lambda part: (
            _scaler(part)
            | _WEIGHTS
            | {"labels": Array("labels rank"), "correlations": Array("groups labels correlation_rank")}
        ),
    ),
    "MLMLClassifier": Stored(
        record(
            _CLASSICAL
            | {
                "instance_smoothness": NOT_NEGATIVE,
                "n_neighbors": SIZE,
                "weight": SHARE,
                "metric": one_of("euclidean", "cosine"),
            }
        ),
        _mlml,
    ),
    "D2MLClassifier": Stored(
        record(_CLASSICAL | {"gamma": optional(POSITIVE), "rank_weight": NOT_NEGATIVE, "ridge": NOT_NEGATIVE}), _d2ml
    ),
    "CappedSoftmaxClassifier": Stored(record(_LAYERS | {"n_positives": POSITIVE}, older=("input_dropout",)), _capped),
    "CRISPClassifier": Stored(
        NETWORK.facts, lambda part: _network(part) | {"class_priors": Array("labels", "f8", 0, 1)}
    ),
    "AutoClassifier": Stored(
        record(
            {
                "members": listed(record({"class": TEXTUAL, "params": by_name(ANY), "facts": ANY})),
                "weights": listed(SHARE),
                "sharpness": listed(NOT_NEGATIVE),
                "links": listed(one_of("shares", "probability", "odds", "standardized")),
                "n_positives": POSITIVE,
                "comparison": record({"rows": COUNT, "methods": by_name(by_name(MEASURED))}, maybe=("rows", "methods")),
                "history": _history(
                    record(
                        {"method": TEXTUAL, "settings": by_name(ANY), "weight": MEASURED},
                        rest=MEASURED,
                    )
                ),
            },
            older=("links", "comparison"),
        ),
        _auto,
    ),
}


def check_part(kind: type, part: Part) -> None:
    """Check facts and arrays of one estimator. A class outside this library checks what it alone stores."""
    stored = next((STORED[base.__name__] for base in kind.__mro__ if base.__name__ in STORED), None)
    if stored is None:
        return
    stored.facts(part.place, part.facts)
    part.expect(stored.arrays(part))
    stored.check(part)


#: What a fit noted about its label sets.
NOTES: dict[str, Rule] = {"thresholds_from_": TEXTUAL, "n_positives_": POSITIVE, "n_positives_from_": TEXTUAL}
#: Arrays of a table's columns, beside those of the estimator.
TABLE_PREFIX = "table."

HEADER = record(
    {
        "format": one_of(FORMAT),
        "format_version": SIZE,
        "onepos_version": TEXTUAL,
        "class": TEXTUAL,
        "params": by_name(ANY),
        "classes": listed(NAME, distinct=True),
        "classes_dtype": TEXTUAL,
        "single_label": TRUTH,
        "n_features_in": SIZE,
        "feature_names_in": optional(listed(TEXTUAL)),
        "facts": ANY,
        "notes": record(NOTES, maybe=NOTES),
        "thresholds": record({"values": listed(FINITE), "at_least_one": TRUTH}),
        "calibration": record({"slope": POSITIVE, "offsets": listed(FINITE), "n_rows": COUNT, "spread": POSITIVE}),
        "table": ANY,
        "checksum": TEXTUAL,
    },
    maybe=("thresholds", "calibration", "table", "checksum"),
    older=("notes",),
)


def check(kind: type, header: dict[str, Any], arrays: Arrays) -> None:
    """Raise ValueError unless header and arrays are those of a model that can be built."""
    version = header["format_version"]
    HEADER(Place("", version), header)
    n_labels, n_features = len(header["classes"]), header["n_features_in"]
    if not n_labels:
        raise ValueError("classes must be the names of the labels; there are none")
    class_array(header["classes"], header["classes_dtype"])
    names = header["feature_names_in"]
    if names is not None and len(names) != n_features:
        raise Place("feature_names_in", version).wrong(f"{n_features:,} names", names)
    for name, field in (("thresholds", "values"), ("calibration", "offsets")):
        if name in header and (header["single_label"] or len(header[name][field]) != n_labels):
            raise Place(f"{name}.{field}", version).wrong(f"{n_labels:,} numbers, one per label", header[name][field])
    sizes = {"features": n_features, "labels": n_labels}
    own = {name: array for name, array in arrays.items() if not name.startswith(TABLE_PREFIX)}
    check_part(kind, Part(Place("facts", version), header["facts"], own, dict(sizes)))
    rest = {name.removeprefix(TABLE_PREFIX): arrays[name] for name in arrays.keys() - own.keys()}
    if "table" in header:
        from onepos.persistence.table_schema import TABLE, check_columns  # pandas comes with it

        table = header["table"]
        TABLE(Place("table", version), table)
        if table["labels"] != [str(name) for name in header["classes"]]:
            raise Place("table.labels", version).wrong("the names of the classes", table["labels"])
        check_columns(Part(Place("table.encoder", version), table["encoder"], rest, sizes, TABLE_PREFIX))
    elif rest:
        raise ValueError(f"the array {TABLE_PREFIX}{min(rest)[:80]} is not one of this model")


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

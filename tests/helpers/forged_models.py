"""Forged model files: a valid file of every method, changed in a few places, with a checksum that is right again.

``python benchmarks/reliability/fuzz.py --formats forged --cases 20000`` opens them in a process with little memory.
"""

import io
import json
import random
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

#: Settings that make training fast; other methods have those of a small network.
_FAST: dict[str, dict[str, Any]] = {
    "frequency": {},
    "logistic": {"l2": 1.0},
    "forest": {"n_trees": 6, "n_jobs": 1, "random_state": 0},
    "kernel": {"random_state": 0},
    "centroid": {"random_state": 0},
    "auto": {"methods": ("logistic", "forest", "wan"), "n_folds": 2, "time_budget": None, "random_state": 0},
}
_NETWORK = {"network": (3,), "max_epochs": 1, "random_state": 0}
#: Sizes of a type of safetensors in bits.
_BITS = {"F4": 4, "F8_E4M3": 8, "F8_E5M2": 8, "BF16": 16, "F16": 16, "BOOL": 8, "U64": 64, "C64": 64, "F64": 64}
_NUMPY = {"f4": "F32", "f8": "F64", "f2": "F16", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64"}
_NUMPY |= {"u1": "U8", "u2": "U16", "u4": "U32", "u8": "U64", "b1": "BOOL"}


class Model(NamedTuple):
    """A model file: its header, and type, shape and bytes of each array; a text in the place of a header is kept."""

    header: Any
    arrays: dict[str, Any]


class Raw(NamedTuple):
    """An array that NumPy does not have."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes


def rows(n: int, n_features: int = 5, n_labels: int = 4) -> tuple[Any, Any]:
    """Return features, and one observed label for each row."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, n_features)).round(3)
    return X, np.eye(n_labels, dtype=np.int8)[(X[:, :n_labels] + rng.normal(size=(n, n_labels))).argmax(axis=1)]


def table(n: int) -> pd.DataFrame:
    """Return a column of every kind, and a tag for each row."""
    X, Y = rows(n)
    rng = np.random.default_rng(n)
    places = [f"place {chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(150)]
    return pd.DataFrame(
        {
            "size": X[:, 0],
            "flash": rng.choice(["yes", "no"], size=n),
            "colour": rng.choice(["red", "blue"], size=n),
            "place": [places[i % 10] if i % 2 else f"spot {i}" for i in range(n)],
            "cast": [", ".join(rng.choice(places[:12], size=2)) + f", {i}" for i in range(n)],
            "added": [f"2020-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(n)],
            "length": [f"{60 + i % 40} min" for i in range(n)],
            "words": [" ".join(rng.choice(["sun", "sea", "snow", "street"], size=3)) for _ in range(n)],
            "tag": [["beach", "city", "night", "wood"][j] for j in Y.argmax(axis=1)],
        }
    )


def fitted() -> dict[str, Callable[[], Any]]:
    """Return how to fit a model of every method and of every way to store one, by name."""
    import onepos
    from onepos.methods.registry import METHODS

    X, Y = rows(40)
    names = pd.DataFrame(X, columns=list("abcde"))
    frame = table(300)
    own = {"method": "logistic", "params": {"l2": 1.0}, "text": "words", "random_state": 0}

    def made(key: str, **settings: Any) -> Any:
        return onepos.make_classifier(key, **{**_FAST.get(key, _NETWORK), **settings})

    def later(key: str, X: Any, Y: Any, **settings: Any) -> Callable[[], Any]:
        return lambda: made(key, **settings).fit(X, Y)

    return {
        **{key: later(key, X, Y) for key in METHODS},
        "auto networks": later("auto", *rows(150), methods=("wan",)),
        "named": later("wan", names, pd.DataFrame(Y, columns=["p", "q", "r", "s"])),
        "unscaled": later("an", X, Y, scale="none", dropout=0.1, input_dropout=0.1),
        "one class": later("logistic", X, Y.argmax(axis=1)),
        "calibrated": lambda: made("wan", network=(), max_epochs=30).fit(X, Y).calibrate(X, Y | np.roll(Y, 1, axis=1)),
        "table": lambda: onepos.TableModel(**own).fit(frame, label="tag"),
        "table auto": lambda: onepos.TableModel(params=_FAST["auto"], n_positives=2.0).fit(frame, label="tag"),
        "table calibrated": lambda: (
            onepos.TableModel(**own)
            .fit(frame, label="tag")
            .calibrate(frame.head(40), pd.get_dummies(frame["tag"]).head(40).astype(int))
        ),
    }


def read_model(content: bytes) -> Model:
    """Return the parts of a model file."""
    length = struct.unpack("<Q", content[:8])[0]
    outer, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    header = json.loads(outer.pop("__metadata__")["onepos"][32:])
    types = {name: f"<{code}" for code, name in _NUMPY.items()}
    arrays = {
        name: np.frombuffer(numbers[slice(*about["data_offsets"])], types[about["dtype"]]).reshape(about["shape"])
        for name, about in outer.items()
    }
    return Model(header, arrays)


def write_model(model: Model, *, checksum: bool = True) -> bytes:
    """Return the file, with a checksum that is right, or with one that is not."""
    from onepos._utils.tensor_file import seal

    header, arrays = model
    about = {"onepos": "0" * 32 + (header if isinstance(header, str) else json.dumps(header))}
    outer: dict[str, Any] = {"__metadata__": about}
    numbers = bytearray()
    for name, array in arrays.items():
        raw = array if isinstance(array, Raw) else Raw(_NUMPY[array.dtype.str[1:]], array.shape, array.tobytes())
        outer[name] = {
            "dtype": raw.dtype,
            "shape": list(raw.shape),
            "data_offsets": [len(numbers), len(numbers) + len(raw.content)],
        }
        numbers += raw.content
    text = json.dumps(outer).encode()
    file = io.BytesIO(struct.pack("<Q", len(text)) + text + numbers)
    if checksum:
        seal(file)
    return file.getvalue()


def estimator_of(header: Any) -> Any:
    """Return what a header says of the estimator, which a model of tables has inside."""
    return header["model"].get("estimator_", header["model"])


def _start(header: Any) -> str:
    """Return how the names of the estimator's arrays begin."""
    return "estimator_." if "estimator_" in header["model"] else ""


def save_seeds(folder: Path) -> None:
    """Write a valid file of each kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in fitted().items():
            fit().save(folder / f"{name}.onepos")


def load_seeds(folder: Path | None) -> dict[str, bytes]:
    """Return the valid files, made now if the folder does not hold them."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            save_seeds(Path(made))
            return load_seeds(Path(made))
    if not any(folder.glob("*.onepos")):
        save_seeds(folder)
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.onepos"))}


def forge(seeds: dict[str, bytes], rng: random.Random) -> tuple[str, bytes]:
    """Return what was changed, and the file; one in a hundred is not changed."""
    name = rng.choice(list(seeds))
    if rng.random() < 0.01:
        return f"{name}: nothing", seeds[name]
    model, changes = read_model(seeds[name]), list[str]()
    wanted = rng.choice((1, 1, 1, 2, 3))
    for _ in range(4 * wanted):
        change = rng.choice(_CHANGES)
        try:
            changes.append(f"{change.__name__.strip('_')} {change(model.header, model.arrays, rng)}")
        except (LookupError, TypeError, ValueError, AttributeError, MemoryError):
            continue  # this model, or what earlier changes left of it, has nothing of the kind
        if len(changes) == wanted:
            break
    try:
        return f"{name}: {', '.join(changes)}"[:200], write_model(model, checksum=rng.random() > 0.02)
    except RecursionError:  # a deep list was copied into itself
        return f"{name}: nothing", seeds[name]


#: Characters of a list that was made longer.
_LONGEST = 10**7
_PAYLOADS: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 2.5, -0.5, 1e308, 1e-308, 10**15, 10**30, float("nan"), float("inf")),
    *("", "text", "cuda:99", "meta", "cpu", "none", "standard", "object", "<U99999999", "O", "x" * 100_000, "\ud800"),
    *([], {}, [1], ["a"], [[1]], {"a": 1}, [None], [0] * 1000, ["a"] * 1000, [[]] * 1000),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of a JSON value; three entries stand for a long list."""
    found = [path] if path else []
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, item in items if isinstance(value, dict) else items[:3]:
        found += _places(item, (*path, key))
    return found


def _at(header: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        header = header[key]
    return header


def _field(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    path = rng.choice([path for path in _places(header) if "records" not in path or rng.random() < 0.05])
    inner, key = _at(header, path[:-1]), path[-1]
    found, action = inner[key], rng.choice(("replace", "replace", "replace", "remove", "copy", "stretch", "nudge"))
    if action == "replace":
        inner[key] = rng.choice(_PAYLOADS)
    elif action == "remove":
        del inner[key]
    elif action == "copy":
        inner[key] = json.loads(json.dumps(_at(header, rng.choice(_places(header)))))
    elif action == "stretch" and isinstance(found, list):
        times = [n for n in (2, 100, 10_000) if n * len(json.dumps(found)) < _LONGEST]
        inner[key] = (found or [1]) * rng.choice(times)
    elif action == "stretch" and isinstance(found, dict):
        found[rng.choice(("surprise", "", "0", "é"))] = rng.choice(_PAYLOADS)
    elif type(found) in (int, float):
        inner[key] = rng.choice((-found, found + 1, found * 2, found * 1e6, int(found), float(found), str(found)))
    elif isinstance(found, str):
        inner[key] = rng.choice((found + "x", found.upper(), found[:-1], found * 2))
    elif isinstance(found, list) and found:
        inner[key] = rng.choice((found[::-1], found[:-1], found + found[-1:], found[:1] * len(found)))
    return f"{action} {'.'.join(map(str, path))}"


def _device(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice(("cuda:99", "cuda", "mps", "meta", "xla", "cpu:7", "cuba", ""))
    estimator = estimator_of(header)
    for params in [estimator["_params"], *(member["_params"] for member in estimator.get("members_", []))]:
        if "device" in params:
            params["device"] = name
    return name


def _sizes(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    network, start = estimator_of(header)["network_"], f"{_start(header)}network_"
    n = rng.choice((1, 10, 1000, 40_000))
    kind = rng.choice(("names", "stored chain", "one number"))
    if kind == "names":  # of layers that are not there
        network["weights"], network["biases"] = ["array"] * n, ["array"] * n
        return f"{kind} {n}"
    n = min(n, 2000)
    ends = arrays[f"{start}.weights.0"].shape[1], len(arrays[f"{start}.biases.{len(network['biases']) - 1}"])
    for name in [name for name in arrays if name.startswith(start)]:
        del arrays[name]
    sizes = [ends[0], *[1] * n, ends[1]]
    for j in range(n + 1):
        shape = (sizes[j + 1], sizes[j]) if kind == "stored chain" else (1, 1)
        arrays[f"{start}.weights.{j}"] = np.ones(shape, np.float32)
        arrays[f"{start}.biases.{j}"] = np.ones(shape[0], np.float32)
    network["weights"], network["biases"] = ["array"] * (n + 1), ["array"] * (n + 1)
    return f"{kind} {n}"


def _labels(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    classes, thresholds = estimator_of(header)["classes_"], f"{_start(header)}thresholds_"
    names = classes["names"]
    action = rng.choice(("twice", "million", "fewer", "more", "type", "long", "mixed", "rename", "alike"))
    if action == "twice":
        names[0] = names[-1]
    elif action == "million":
        classes["names"] = [f"c{j}" for j in range(1_000_000)]
    elif action in ("fewer", "more"):
        classes["names"] = names[:-1] if action == "fewer" else [*names, "more"]
        if rng.random() < 0.5:  # in every list of labels
            arrays[thresholds] = np.full(len(classes["names"]), 0.5)
    elif action == "type":
        classes["dtype"] = rng.choice(("<i8", "<f4", "|b1", "<U1", "<M8[s]", "|V8", "object", "<i99", "<u1"))
    elif action == "long":
        classes["names"], classes["dtype"] = [str(name)[:5] * 10**6 for name in names[:5]], "<U5"
    elif action == "mixed":
        classes["names"] = [rng.choice((1, True, 1.0, "1", None, [], float("nan"), 2**70)) for _ in names]
    elif action == "alike":
        others = [f"label {j}" for j in range(len(names) - 2)]
        classes["names"], classes["dtype"] = ["\u00e9", rng.choice(("e\u0301", " ", "\udcff")), *others], "<U7"
    else:
        classes["names"], classes["dtype"] = [f"label {j}" for j in range(len(names))], "<U9"
    return action


def _array_type(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice(list(arrays))
    if rng.random() < 0.5:
        kind = rng.choice(list(_BITS))
        shape = arrays[name].shape
        size = int(np.prod(shape)) * _BITS[kind] // 8
        arrays[name] = Raw(kind, shape, bytes(rng.randrange(256) for _ in range(min(size, 64))).ljust(size, b"\1"))
        return f"{name} {kind}"
    kind = rng.choice(list(_NUMPY))
    with np.errstate(all="ignore"):
        arrays[name] = arrays[name].astype(f"<{kind}")
    return f"{name} {kind}"


def _array_shape(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice([name for name, array in arrays.items() if not isinstance(array, Raw)])
    array = arrays[name]
    action = rng.choice(("transpose", "flat", "axis", "cut", "more", "empty", "row", "tall", "scalar", "zero"))
    if action == "transpose":
        made = array.T
    elif action == "flat":
        made = array.reshape(-1)
    elif action == "axis":
        made = array[None] if rng.random() < 0.5 else array[..., None]
    elif action == "cut":
        made = array[:-1] if rng.random() < 0.5 else array[..., :-1]
    elif action == "more":
        made = np.concatenate([array, array[: rng.choice((1, len(array)))]])
    elif action == "empty":
        made = array[:0]
    elif action == "row":
        made = array[:1]
    elif action == "tall":
        made = np.zeros((20_000, 1, min(array.shape[-1], 50)), array.dtype)
    elif action == "scalar":
        made = np.array(array.reshape(-1)[0])
    else:
        arrays[name] = Raw("F64", (0, rng.choice((10**9, 2**62)), 4), b"")
        return f"{name} {action}"
    arrays[name] = np.ascontiguousarray(made)
    return f"{name} {action}"


def _array_values(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice([name for name, array in arrays.items() if not isinstance(array, Raw)])
    array = arrays[name].copy()
    value = rng.choice((np.nan, np.inf, -np.inf, 0, -1, 1, 7, 255, 1e4, -1e4, 1e9))
    with np.errstate(all="ignore"):
        converted = np.array(value).astype(array.dtype)
    if rng.random() < 0.3:
        array[...] = converted
    else:
        array.reshape(-1)[rng.randrange(array.size)] = converted
    arrays[name] = array
    return f"{name} {value}"


def _array_names(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    name, action = rng.choice(list(arrays)), rng.choice(("remove", "rename", "add", "swap", "all"))
    if action == "remove":
        del arrays[name]
    elif action == "rename":
        arrays[rng.choice((name + "x", "0." + name, "estimator_." + name, name.upper()))] = arrays.pop(name)
    elif action == "add":
        arrays[rng.choice(("more", "network_.weights.9", "encoder_.more", "members_.77.coef_", "a" * 1000))] = np.ones(
            3, np.float32
        )
    elif action == "swap":
        other = rng.choice(list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    else:
        arrays.clear()
    return f"{name} {action}"


def _sparse(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    """Break what compiled code indexes with: rows and columns of CSR matrices, nodes of trees."""
    kinds = ("indptr", "indices", "shape", "right", "roots", "feature", "labels")
    name = rng.choice([name for name in arrays if name.rpartition(".")[2] in kinds])
    array = arrays[name].copy()
    place = rng.choice((0, -1, rng.randrange(len(array))))
    beyond = int(array.max()) + 1 if array.dtype.kind in "iu" else 1  # an earlier change may have put numbers here
    value = rng.choice((-1, -2, 0, 1, len(array), 10**4, 10**6, 2**31 - 1, -(2**31), 2**40, -(2**62), beyond))
    action = rng.choice(("one", "one", "all", "reverse", "cut", "shuffle", "wide", "shift"))
    if action == "one":
        array[place] = np.array(value).astype(array.dtype)
    elif action == "all":
        array[:] = np.array(value).astype(array.dtype)
    elif action == "reverse":
        array = array[::-1]
    elif action == "cut":
        array = array[: rng.randrange(len(array))]
    elif action == "shuffle":
        array = array[np.array(rng.sample(range(len(array)), len(array)))]
    elif action == "wide":
        array = array.astype(np.int64)
        array[place] = value
    else:
        array = array + array.dtype.type(rng.choice((1, 3, 100)))
    arrays[name] = np.ascontiguousarray(array)
    return f"{name} {action} {value}"


def _members(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    estimator, start = estimator_of(header), _start(header)
    members, n = estimator["members_"], rng.choice((0, 2, 100, 3000))
    action = rng.choice(("class", "nested", "copies", "order", "weights"))
    if action == "class":
        members[0]["class"] = rng.choice(("AutoClassifier", "CRISPClassifier", "os.system", "LogisticClassifier"))
    elif action == "nested":
        members[0] = json.loads(json.dumps(estimator))
    elif action == "copies":
        first = f"{start}members_.0."
        own = {name.removeprefix(first): array for name, array in arrays.items() if name.startswith(first)}
        for name in [name for name in arrays if name.startswith(f"{start}members_.")]:
            del arrays[name]
        estimator["members_"], estimator["links_"] = members[:1] * n, estimator["links_"][:1] * n
        arrays.update({f"{start}members_.{j}.{name}": array for j in range(n) for name, array in own.items()})
        arrays[f"{start}weights_"] = np.full(n, 1.0 / max(n, 1))
        arrays[f"{start}sharpness_"] = np.ones(n)
    elif action == "order":
        members.reverse()
    else:
        arrays[f"{start}weights_"] = np.array([rng.choice((-1.0, 0.0, 0.5, 2.0)) for _ in members])
    return f"{action} {n}"


def _header(header: Any, arrays: dict[str, Any], rng: random.Random) -> str:
    action = rng.choice(("version", "deep", "brackets", "class", "features"))
    if action == "version":
        header["format_version"] = rng.choice((0, 1, 2, 3, 99, "1", 1.0, True, None))
    elif action == "deep":
        nested: Any = 1
        for _ in range(rng.choice((20, 40, 300, 900))):
            nested = [nested] if rng.random() < 0.5 else {"a": nested}
        estimator_of(header)["_params"]["n_positives"] = nested
    elif action == "brackets":
        inner = rng.choice([header, header["model"], estimator_of(header), estimator_of(header)["_params"]])
        inner[rng.choice(list(inner))] = "[" * 100_000
    elif action == "class":
        names = ("KernelClassifier", "SMILEClassifier", "ForestClassifier", "TableModel", "X")
        header["model"]["class"] = rng.choice(names)
    else:
        estimator = estimator_of(header)
        estimator["n_features_in_"] = rng.choice((0, 1, 6, 10**6, 10**12, estimator["n_features_in_"] + 1))
    return action


_CHANGES: tuple[Callable[[Any, dict[str, Any], random.Random], str], ...] = (
    *(_field, _field, _field, _field, _device, _sizes, _labels, _array_type, _array_shape, _array_shape),
    *(_array_values, _array_values, _array_names, _sparse, _sparse, _members, _header),
)

#: Columns beyond which a forged model is not asked for predictions.
_MOST_FEATURES = 100_000


def open_forged(path: Path) -> None:
    """Open a file; ModelFileError refuses it. A model that opens must predict, show itself, and survive saving."""
    import onepos

    model = onepos.load(path)
    try:
        _use(model, path)
    except Exception as error:
        if "range of float32" in str(error):  # an extreme scaling of the features is a scaling
            return
        raise AssertionError(f"it opened, but {type(error).__name__}: {str(error)[:200]}") from error


def _use(model: Any, path: Path) -> None:
    import onepos
    from onepos.pages.model_page import Scored, summarise_model

    estimator = getattr(model, "estimator_", model)
    names = list(estimator.classes_)
    assert len(set(names)) == len(names), "label names occur twice"
    if estimator.n_features_in_ > _MOST_FEATURES:
        return
    X = _rows_for(model, estimator)
    probabilities = np.asarray(model.predict_proba(X))
    assert probabilities.shape == (3, len(names)), f"probabilities of shape {probabilities.shape}"
    assert ((probabilities >= 0) & (probabilities <= 1)).all(), "probabilities that are none"
    sets = np.asarray(model.predict(X))
    assert sets.shape == ((3,) if estimator.single_label_ and model is estimator else probabilities.shape), "sets"
    truth = pd.DataFrame(np.eye(3, len(names), dtype=np.int8), columns=estimator.classes_)
    summary = summarise_model(Scored(model, X, truth, complete=False, measured=None))
    assert json.dumps(summary, default=str), "no page"
    again = onepos.load(model.save(path.with_suffix(".again")))
    assert np.array_equal(np.asarray(again.predict_proba(X)), probabilities), "saved again it predicts something else"


def _rows_for(model: Any, estimator: Any) -> Any:
    if model is estimator:
        X = rows(3, max(4, estimator.n_features_in_))[0][:, : estimator.n_features_in_]
        names = getattr(estimator, "feature_names_in_", None)
        return X if names is None else pd.DataFrame(X, columns=list(names))
    kinds = model.encoder_.kinds_
    numbers, words = [0.5, 1.0, None], ["red", None, "sun, sea"]
    truths = ["yes", "no", None]
    values = {"number": numbers, "boolean": truths}
    return pd.DataFrame({name: values.get(kind, words) for name, kind in kinds.items()}, index=range(3))

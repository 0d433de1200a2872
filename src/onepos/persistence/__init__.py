"""Save and load fitted models: one safetensors file, weights beside a JSON header. Loading never runs code."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

import onepos
from onepos._utils.files import write_durably
from onepos.exceptions import ModelFileError
from onepos.label_sets.calibration import Calibration
from onepos.methods.registry import installed_methods
from onepos.persistence import schema

if TYPE_CHECKING:
    from onepos.methods._base import OnePositiveClassifier
    from onepos.table import TableModel


def save(model: "OnePositiveClassifier | TableModel", path: str | Path) -> Path:
    """Write a fitted model to ``path``, atomically: an interrupted save leaves the old file.

    The file holds what prediction needs, the parameters and the history, but neither the training set nor
    ``soft_labels_``. A ``TableModel`` has its columns and labels in the same file. A model that ``load`` would refuse
    is not written.
    """
    from safetensors.numpy import save as to_bytes
    from sklearn.utils.validation import check_is_fitted

    estimator = cast("OnePositiveClassifier", getattr(model, "estimator_", model))
    check_is_fitted(estimator)
    arrays, facts = estimator._state()
    names = getattr(estimator, "feature_names_in_", None)
    header = {
        "format": schema.FORMAT,
        "format_version": schema.FORMAT_VERSION,
        "onepos_version": onepos.__version__,
        "class": type(estimator).__name__,
        "params": {name: _plain(value, name) for name, value in estimator.get_params(deep=False).items()},
        "classes": [_plain(value, "classes_") for value in estimator.classes_.tolist()],
        "classes_dtype": estimator.classes_.dtype.str if estimator.classes_.dtype.kind in "biufU" else "object",
        "single_label": estimator.single_label_,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "facts": _plain(facts, "facts"),
        "notes": {name: _plain(getattr(estimator, name), name) for name in schema.NOTES if hasattr(estimator, name)},
    }
    if hasattr(estimator, "thresholds_"):
        header["thresholds"] = {"values": estimator.thresholds_.tolist(), "at_least_one": estimator.at_least_one_}
    if hasattr(estimator, "calibration_"):
        header["calibration"] = vars(estimator.calibration_) | {"offsets": estimator.calibration_.offsets.tolist()}
    if model is not estimator:
        table_arrays, table = model._state()
        arrays |= {f"{schema.TABLE_PREFIX}{name}": array for name, array in table_arrays.items()}
        header["table"] = _plain(table, "table")
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        if len(arrays) > schema.MOST_ARRAYS:
            raise ValueError(f"it has {len(arrays):,} arrays, and a file holds at most {schema.MOST_ARRAYS:,}")
        schema.check(type(estimator), header, arrays)
    except ValueError as error:
        raise ModelFileError(f"the {type(model).__name__} cannot be saved: {error}. Train it again.") from error
    header["checksum"] = _checksum(header, arrays)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_durably(path, to_bytes(arrays, metadata={"onepos": json.dumps(header)}))


def load(path: str | Path) -> Any:
    """Open a model written by ``save``: an estimator, or the ``TableModel`` around one.

    A file holds numbers and JSON. Classes are looked up in the table of methods, so a file cannot name code to run.
    The whole file is checked before the model is built (``onepos.persistence.schema``). A ``device`` that this machine
    does not have becomes "cpu".

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, onepos
    >>> model = onepos.FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])
    >>> path = model.save(pathlib.Path(tempfile.mkdtemp()) / "model.onepos")
    >>> bool((onepos.load(path).predict_proba([[0.0]]) == model.predict_proba([[0.0]])).all())
    True
    """
    header, arrays = _read(Path(path))
    classes = {method.class_name.rpartition(":")[2]: method for method in installed_methods().values()}
    name = header.get("class")
    if not isinstance(name, str) or name not in classes:
        raise ModelFileError(f"{path} holds a model of class {name!r}, which this version of onepos does not know.")
    try:
        kind = classes[name].load_class()
        schema.check(kind, header, arrays)
        return _built(kind._unfitted(header["params"]), header, arrays)
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} is not a complete onepos model: {str(error)[:500]}. Save the model again, or copy the file again."
        ) from error


def _built(estimator: "OnePositiveClassifier", header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Fill an unfitted estimator from a header and arrays that were checked; return the model."""
    estimator.classes_ = schema.class_array(header["classes"], header["classes_dtype"])
    estimator.single_label_, estimator.n_features_in_ = header["single_label"], header["n_features_in"]
    if header["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.array(header["feature_names_in"], dtype=object)
    if "thresholds" in header:
        estimator.thresholds_ = np.array(header["thresholds"]["values"], dtype=np.float64)
        estimator.at_least_one_ = header["thresholds"]["at_least_one"]
    if "calibration" in header:
        offsets = np.array(header["calibration"]["offsets"], dtype=np.float64)
        estimator.calibration_ = Calibration(**header["calibration"] | {"offsets": offsets})
    for name, value in header.get("notes", {}).items():
        setattr(estimator, name, value)
    columns = {name: arrays[name] for name in arrays if name.startswith(schema.TABLE_PREFIX)}
    estimator._restore({name: array for name, array in arrays.items() if name not in columns}, header["facts"])
    if "table" not in header:
        return estimator
    from onepos.table import TableModel

    columns = {name.removeprefix(schema.TABLE_PREFIX): array for name, array in columns.items()}
    return TableModel._restored(estimator, columns, header["table"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata, arrays, names = file.metadata() or {}, {}, list(file.keys())
            if len(names) > schema.MOST_ARRAYS:
                raise ValueError(f"it holds {len(names):,} arrays; a model has at most {schema.MOST_ARRAYS:,}")
            for name in names:
                found = file.get_slice(name).get_dtype()
                if found not in schema.NUMBER_TYPES:
                    raise ValueError(f"the array {name[:80]} has numbers of type {found}, which no model has")
                arrays[name] = file.get_tensor(name)
    except MemoryError as error:
        size = path.stat().st_size / 1e6
        raise ModelFileError(f"{path} needs more memory than there is: it has {size:,.0f} MB. Free some.") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path} is not a onepos model, or is truncated or corrupt ({error}).") from error
    try:
        header = json.loads(metadata["onepos"])
        if not isinstance(header, dict) or header.get("format") != schema.FORMAT or schema.too_deep(header):
            raise ValueError("the header is that of another program")
    except (KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is a safetensors file, but not a onepos model.") from error
    version = header.get("format_version")
    if type(version) is not int or not 1 <= version <= schema.FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has model format {str(version)[:80]}; this version of onepos reads 1 to {schema.FORMAT_VERSION}. "
            "Update onepos, or save the model again with the version that wrote it."
        )
    if "checksum" not in header and version > 1:
        raise ModelFileError(f"{path} has no checksum, so it may be damaged. Save the model again.")
    if "checksum" in header and header["checksum"] != _checksum(header, arrays):
        raise ModelFileError(f"{path} was changed after it was written: its checksum does not match. Save it again.")
    return header, arrays


def _checksum(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    """Hash everything in the file but the checksum. This shows damage, but does not prove who wrote the file."""
    rest = {name: value for name, value in header.items() if name != "checksum"}
    state = hashlib.blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        state.update(repr((name, arrays[name].dtype.str, arrays[name].shape)).encode())
        state.update(np.ascontiguousarray(arrays[name]).tobytes())
    return state.hexdigest()


def _plain(value: Any, where: str) -> Any:
    """Return a value that JSON holds exactly, or raise."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, where) for key, item in value.items()}
    if where == "random_state":
        return None  # the generator has been used, and a loaded model is not trained further
    raise ModelFileError(
        f"{where} holds a {type(value).__name__}, which a model file cannot store; use numbers, strings or lists."
    )

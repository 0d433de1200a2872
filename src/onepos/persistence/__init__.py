"""Save and load fitted models: one safetensors file, arrays beside a JSON header. Loading never runs code.

What a file holds of a class is declared by the class itself (``onepos._utils.storage``).
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onepos
from onepos._utils import storage
from onepos._utils.files import replaced_when_done
from onepos._utils.tensor_file import opened, write_tensors
from onepos.exceptions import ModelFileError
from onepos.methods.registry import StoredEstimator

if TYPE_CHECKING:
    from onepos.methods._base import OnePositiveClassifier
    from onepos.table import TableModel

FORMAT, FORMAT_VERSION = "onepos model", 1
#: Types of numbers that any array may have, as safetensors names them.
NUMBER_TYPES = frozenset({"F16", "F32", "F64", "I16", "I32", "I64", "U8", "U16", "U32"})
#: Arrays of a file. Each costs time to read, however few numbers it has.
MOST_ARRAYS = 2_500

_HEADER = {
    "format": storage.TEXT,
    "format_version": storage.SIZE,
    "onepos_version": storage.TEXT,
    "model": storage.JSON,
}


class _StoredModel(StoredEstimator):
    """The rule of a whole file: an estimator, or the ``TableModel`` around one."""

    def kinds(self) -> dict[str, Callable[[], type]]:
        """Return how to import the classes; pandas comes with that of tables."""
        return super().kinds() | {"TableModel": lambda: onepos.TableModel}


def save(model: "OnePositiveClassifier | TableModel", path: str | Path) -> Path:
    """Write a fitted model to ``path``, atomically: an interrupted save leaves the old file.

    The file holds what prediction needs, the parameters and the history, but neither the training set nor
    ``soft_labels_``. A ``TableModel`` has its columns and labels in the same file. A file that ``load`` refuses is not
    kept.
    """
    from safetensors.numpy import save_file
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(getattr(model, "estimator_", model))
    place = storage.Place({})
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "onepos_version": onepos.__version__}
    header["model"] = _StoredModel().write(model, place)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_when_done(path) as part:
        write_tensors(part, save_file, place.arrays, header)
        try:
            _read(part)
        except ValueError as error:
            message = f"the {type(model).__name__} cannot be saved: {error}. Train it again."
            raise ModelFileError(message) from error
    return path


def load(path: str | Path) -> Any:
    """Open a model written by ``save``: an estimator, or the ``TableModel`` around one.

    A file holds numbers and JSON. Classes are looked up in the table of methods, so a file cannot name code to run.
    Every part is checked before it is built. A ``device`` that this machine does not have becomes "cpu".

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, onepos
    >>> model = onepos.FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])
    >>> path = model.save(pathlib.Path(tempfile.mkdtemp()) / "model.onepos")
    >>> bool((onepos.load(path).predict_proba([[0.0]]) == model.predict_proba([[0.0]])).all())
    True
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}.")
    try:
        return _read(path)
    except ValueError as error:
        # One line, whatever the file holds.
        reason = "".join(sign if sign.isprintable() else "?" for sign in str(error)[:500]).rstrip(".")
        raise ModelFileError(f"{path} {reason}. Save the model again, or copy the file again.") from error


def _read(path: Path) -> Any:
    """Return the model of a file; ValueError if the file breaks a rule."""
    with opened(path, FORMAT, FORMAT_VERSION, "numpy") as (header, file):
        names = list(file.keys())
        if len(names) > MOST_ARRAYS:
            raise ValueError(f"holds {len(names):,} arrays; a model has at most {MOST_ARRAYS:,}")
        for name in names:
            kind = file.get_slice(name).get_dtype()
            if kind not in NUMBER_TYPES:
                raise ValueError(f"has numbers of type {kind} in the array {name[:80]}, which no model has")
        place = storage.Place({name: file.get_tensor(name) for name in names})
    try:
        model = _StoredModel().read(storage.Record(_HEADER).read(header, place)["model"], place)
        for name in names:
            if name not in place.used:
                raise ValueError(f"the array {name[:80]} is not one of this model")
    except ValueError as error:
        raise ValueError(f"is not a complete onepos model: {error}") from error
    return model

"""NumPy archives: ``X`` dense, or sparse as its CSR parts, with ``Y`` and optional names."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from onepos.exceptions import DataFileError
from onepos_studies.datasets._matlab import check_inflation
from onepos_studies.datasets._table import Table, as_features, as_indicator, checked_csr, numbered

_CSR_PARTS = ("X_data", "X_indices", "X_indptr", "X_shape")


def read_npz(path: Path) -> Table:
    """Read an ``.npz`` archive; nothing in it is ever unpickled.

    It holds ``Y`` (n_samples, n_labels) and either ``X`` (n_samples, n_features) or the parts ``X_data``,
    ``X_indices``, ``X_indptr``, ``X_shape`` of a CSR matrix; optionally ``feature_names`` and ``label_names``. Others
    are ignored.
    """
    arrays = _load(path)
    if "Y" not in arrays or not ("X" in arrays or all(part in arrays for part in _CSR_PARTS)):
        raise DataFileError(f"{path.name}: Y and X (or {', '.join(_CSR_PARTS)}) expected; it holds {sorted(arrays)}.")
    if "X" in arrays:
        X = arrays["X"]
    else:
        try:
            data, indices, indptr, (n_rows, n_columns) = (arrays[part] for part in _CSR_PARTS)
            X = checked_csr(data, indices, indptr, (int(n_rows), int(n_columns)))
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise DataFileError(f"{path.name}: X_data … X_shape are not a CSR matrix ({error}).") from error
    if X.ndim != 2 or X.dtype.kind not in "biuf" or arrays["Y"].ndim != 2:
        raise DataFileError(
            f"{path.name}: X and Y must be numeric matrices; got X {X.dtype} {X.shape} and Y {arrays['Y'].shape}."
        )
    Y = as_indicator(arrays["Y"], path, "Y")
    features, labels = (
        _names(arrays[f"{what}_names"], path, f"{what}_names") if f"{what}_names" in arrays else numbered(what, count)
        for what, count in (("feature", X.shape[1]), ("label", Y.shape[1]))
    )
    return Table(as_features(X), Y, features, labels)


def _names(array: Any, path: Path, key: str) -> tuple[str, ...]:
    # A code point that Unicode does not have makes NumPy fail with an error of the interpreter itself.
    if array.dtype.kind != "U" or (array.size and array.ravel().astype("<U").view("<u4").max() > sys.maxunicode):
        raise DataFileError(f"{path.name}: {key} must be texts of Unicode characters. Is the file complete?")
    return tuple(array.ravel().tolist())


def _load(path: Path) -> dict[str, Any]:
    wanted = {"X", "Y", *_CSR_PARTS, "feature_names", "label_names"}
    try:
        # Opened here: NumPy leaves the file open when the archive turns out to be broken.
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if not hasattr(archive, "files"):
                raise ValueError("a single array, not an archive")
            with archive:
                return {name: _array(archive, name) for name in archive.files if name in wanted}
    except Exception as error:  # zipfile, zlib, struct and NumPy each raise errors of their own
        raise DataFileError(
            f"{path.name}: not a readable .npz archive of plain arrays ({type(error).__name__}: {error}). "
            "Is the file complete, and free of pickled objects?"
        ) from error


def _array(archive: Any, name: str) -> Any:
    members = {member.filename: member for member in archive.zip.infolist()}
    member = members.get(f"{name}.npy") or members[name]
    check_inflation(member.compress_size, member.file_size)
    array = archive[name]
    if not isinstance(array, np.ndarray):  # NumPy hands out the bytes of what does not look like an array
        raise ValueError(f"{name} is no array")
    return array

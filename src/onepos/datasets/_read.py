"""One entry to all file formats."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from onepos.datasets._table import Table

#: Suffix → (module, function); imported on use, so that a format costs nothing until it is read.
FORMATS: dict[str, tuple[str, str]] = {
    ".arff": ("_arff", "read_arff"),
    ".mat": ("_matlab", "read_matlab"),
    ".npz": ("_npz", "read_npz"),
    ".svm": ("_svmlight", "read_svmlight"),
    ".svmlight": ("_svmlight", "read_svmlight"),
    ".libsvm": ("_svmlight", "read_svmlight"),
    ".csv": ("_tabular", "read_csv"),
    ".tsv": ("_tabular", "read_csv"),
    ".tab": ("_tabular", "read_csv"),
    ".parquet": ("_tabular", "read_parquet"),
    ".pq": ("_tabular", "read_parquet"),
}


def read(path: str | Path, **options: Any) -> Table:
    """Read a multi-label data file; the format follows from the suffix.

    Parameters
    ----------
    path : str or Path
        ``.arff`` (Mulan, with its XML file beside it), ``.mat``, ``.npz``, ``.svm`` / ``.svmlight`` /
        ``.libsvm``, ``.csv``, ``.tsv`` / ``.tab``, ``.parquet`` / ``.pq``.
    **options
        Of the format: ARFF ``labels``, ``xml``; MATLAB ``features``, ``labels``, ``orientation``;
        svmlight ``n_features``, ``zero_based``; CSV, TSV and parquet ``labels`` or ``label``, ``drop``.

    Returns
    -------
    Table
        With ``X`` (float32 ndarray or CSR), ``Y`` (uint8 ndarray), ``feature_names``, ``label_names``.

    Raises
    ------
    DataFileError
        The file is corrupt, truncated or of another format; the message names file and line.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(
            f"cannot tell the format of {source.name!r} from its suffix; expected one of {', '.join(FORMATS)}."
        )
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}. Check the path.")
    module, function = FORMATS[suffix]
    reader: Callable[..., Table] = getattr(import_module(f"onepos.datasets.{module}"), function)
    return reader(source, **options)

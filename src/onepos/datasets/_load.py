"""Read any data file; load, list and verify the data sets of the registry."""

import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos.datasets._catalogue import DataSetEntry, dataset_info, get_entry, registry
from onepos.datasets._fetch import data_folder, fetch_dataset, is_available
from onepos.datasets._table import Table, csr, stack, to_dense
from onepos.exceptions import DataFileError, LabelWarning

if TYPE_CHECKING:
    import pandas as pd


#: Suffix → module and function that read it; imported on use, so that a format costs nothing until it is read.
FORMATS: dict[str, tuple[str, str]] = {
    ".arff": ("_arff", "read_arff"),
    ".mat": ("_matlab", "read_matlab"),
    ".npz": ("_npz", "read_npz"),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), ("_svmlight", "read_svmlight")),
    **dict.fromkeys((".csv", ".tsv", ".tab"), ("_delimited", "read_csv")),
    **dict.fromkeys((".parquet", ".pq"), ("_delimited", "read_parquet")),
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
    reader = find_reader(source)
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}. Check the path.")
    return reader(source, **options)


def find_reader(path: Path) -> Callable[..., Table]:
    """Return the function that reads a file with this suffix."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"cannot tell the format of {path.name!r} from its suffix; expected one of {', '.join(FORMATS)}."
        )
    module, function = FORMATS[path.suffix.lower()]
    reader: Callable[..., Table] = getattr(import_module(f"onepos.datasets.{module}"), function)
    return reader


def load_dataset(
    name: str,
    *,
    data_home: str | Path | None = None,
    offline: bool | None = None,
    progress: bool = False,
    drop_unlabelled: bool = True,
) -> Any:
    """Load a data set, downloading its files on first use.

    Parameters
    ----------
    name : str
        A name from ``list_datasets()``, in any case.
    data_home : path, optional
        Cache folder; default ``$ONEPOS_DATA``, else the user's cache.
    offline : bool, optional
        Never download; default: whether ``$ONEPOS_OFFLINE`` is set.
    progress : bool, default=False
        Show a progress bar while downloading.
    drop_unlabelled : bool, default=True
        Drop rows without any label, which no single-positive method can use, with a LabelWarning.

    Returns
    -------
    sklearn.utils.Bunch
        ``X`` float32, shape (n_samples, n_features): CSR for the sets whose features are binary and mostly zero
        (density below 10 %: corel5k, rcv1-s1, corel16k-s1, delicious, tmc2007, mirflickr-tags), for netflix a DataFrame
        of its columns, else ndarray; ``Y`` uint8 ndarray of shape (n_samples, n_labels), all labels; ``label_names``,
        ``feature_names`` lists of str; ``info`` dict: the registry's entry and ``rows_dropped``.

    Raises
    ------
    DownloadError, ChecksumError, DataFileError
        The files are not available, are not the registry's, or do not have its dimensions.

    Examples
    --------
    >>> from onepos.datasets import load_dataset
    >>> yeast = load_dataset("yeast")  # doctest: +SKIP
    """
    from sklearn.utils import Bunch

    entry = get_entry(name)
    table = load_table(entry, data_home=data_home, offline=offline, progress=progress)
    X, Y = table.X, table.Y
    labelled = Y.any(axis=1)
    dropped = int(np.count_nonzero(~labelled)) if drop_unlabelled else 0
    if dropped:
        warnings.warn(
            f"{entry.name}: {dropped} of {len(Y)} rows carry no label and were dropped "
            "(drop_unlabelled=False keeps them).",
            LabelWarning,
            stacklevel=2,
        )
        X, Y = X[labelled], Y[labelled]
    return Bunch(
        X=X,
        Y=Y,
        label_names=list(table.label_names),
        feature_names=list(table.feature_names),
        info=dataset_info(entry.name) | {"rows_dropped": dropped},
    )


def load_table(entry: DataSetEntry, **where: Any) -> Table:
    """Read all rows of a data set as the registry says, and check its dimensions."""
    paths = fetch_dataset(entry.name, **where)
    if "separator" in entry.options:
        table = _read_tagged(paths[0], **{key: entry.options[key] for key in ("label", "separator", "drop")})
    else:
        xml = [("xml", path) for path in paths if path.suffix == ".xml"]
        options = entry.options | dict(xml)
        table = stack([read(path, **options) for path in paths if path.suffix != ".xml"])
        X = csr(table.X) if entry.sparse else to_dense(table.X)
        table = Table(X, table.Y, table.feature_names, table.label_names)
    # A user's own copy may have lost its unlabelled rows already, as the authors' files have.
    rows = {entry.instances, entry.instances - (entry.rows_without_label if entry.supplied else 0)}
    found = (len(table.Y), table.X.shape[1], table.Y.shape[1])
    if found[0] not in rows or found[1:] != (entry.features, entry.labels):
        raise DataFileError(
            f"{paths[0]} is not {entry.name}: {' or '.join(map(str, sorted(rows)))} rows, {entry.features} "
            f"features and {entry.labels} labels expected; got {found[0]}, {found[1]} and {found[2]}. "
            f"{entry.obtain}".rstrip()
        )
    return table


def _read_tagged(path: Path, label: str, separator: str, drop: list[str]) -> Table:
    """Read a table whose tags are joined in one column; the other columns stay as they are."""
    import pandas as pd

    frame = pd.read_csv(path)
    Y = frame[label].str.get_dummies(separator)
    X = frame.drop(columns=[label, *drop])
    return Table(X, Y.to_numpy(dtype=np.uint8), tuple(X.columns), tuple(Y.columns))


def list_datasets(*, data_home: str | Path | None = None) -> "pd.DataFrame":
    """List the data sets: the paper's twelve in its order, then three with other features and a table.

    Parameters
    ----------
    data_home : path, optional
        The cache folder in which ``available`` looks.

    Returns
    -------
    pandas.DataFrame
        Columns name, instances, features, labels, cardinality, matches_paper, available (all files are
        in the cache folder), note.
    """
    import pandas as pd

    home = data_folder(data_home)
    columns = ["name", "instances", "features", "labels", "cardinality", "matches_paper", "available", "note"]
    rows = [
        {column: getattr(entry, column, None) for column in columns} | {"available": is_available(entry, home)}
        for entry in registry().values()
    ]
    return pd.DataFrame(rows, columns=columns)


def verify_dataset(
    name: str, *, data_home: str | Path | None = None, offline: bool | None = None, progress: bool = False
) -> "pd.DataFrame":
    """Recompute the facts of a data set and compare them with the registry.

    Checksums are compared on the way: a file that differs raises ChecksumError, one with other
    dimensions DataFileError.

    Parameters
    ----------
    name : str
    data_home, offline, progress
        As for ``load_dataset``.

    Returns
    -------
    pandas.DataFrame
        One row per fact (index: instances, features, labels, rows_without_label, cardinality,
        feature_sum), columns ``expected`` (NaN: the registry does not know), ``found``, ``ok``.
    """
    import pandas as pd

    entry = get_entry(name)
    table = load_table(entry, data_home=data_home, offline=offline, progress=progress)
    n, counts = len(table.Y), table.Y.sum(axis=1, dtype=np.int64)
    # A user's copy without its unlabelled rows has all labels on fewer rows.
    dropped = entry.instances - n
    expected = {
        "instances": n,
        "features": entry.features,
        "labels": entry.labels,
        "rows_without_label": entry.rows_without_label - dropped,
        "cardinality": entry.cardinality * entry.instances / n,
        "feature_sum": np.nan if entry.feature_sum is None else entry.feature_sum,
    }
    found = {
        "instances": n,
        "features": table.X.shape[1],
        "labels": table.Y.shape[1],
        "rows_without_label": np.count_nonzero(counts == 0),
        "cardinality": counts.mean(),
        "feature_sum": np.nan if hasattr(table.X, "columns") else table.X.sum(dtype=np.float64),
    }
    # The registry rounds cardinality to four decimals (three for the authors' own files) and sums to three.
    tolerance = {"cardinality": 1e-3, "feature_sum": 1e-5 * abs(entry.feature_sum or 0.0)}
    report = pd.DataFrame({"expected": expected, "found": found}, dtype=np.float64)
    allowed = pd.Series(tolerance).reindex(report.index, fill_value=0.0)
    off = (report["found"] - report["expected"]).abs()
    report["ok"] = report["expected"].isna() | (off <= allowed)
    return report

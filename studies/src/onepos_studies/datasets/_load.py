"""Read benchmark files; load, list and verify the data sets of the registry."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos._utils.files import existing
from onepos._utils.validation import csr, to_dense
from onepos.exceptions import DataFileError, LabelWarning
from onepos_studies.datasets._arff import read_arff
from onepos_studies.datasets._catalogue import DataSetEntry, dataset_info, get_entry, registry
from onepos_studies.datasets._fetch import data_folder, fetch_dataset, is_available
from onepos_studies.datasets._matlab import read_matlab
from onepos_studies.datasets._npz import read_npz
from onepos_studies.datasets._table import Table, stack

if TYPE_CHECKING:
    import pandas as pd

#: The function that reads files with a suffix.
FORMATS: dict[str, Callable[..., Table]] = {".arff": read_arff, ".mat": read_matlab, ".npz": read_npz}


def read(path: str | Path, **options: Any) -> Table:
    """Read a multi-label data file: ``.arff`` (Mulan, with its XML file beside it), ``.mat`` or ``.npz``.

    Options are those of the format: ARFF ``labels``, ``xml``; MATLAB ``features``, ``labels``, ``orientation``.
    """
    source = existing(path, FORMATS)
    return FORMATS[source.suffix.lower()](source, **options)


def load_dataset(
    name: str,
    *,
    data_home: str | Path | None = None,
    offline: bool | None = None,
    progress: bool = False,
    drop_unlabelled: bool = True,
) -> Any:
    """Load a data set, downloading its files on first use.

    Other parameters and errors are those of ``fetch_dataset``.

    Parameters
    ----------
    drop_unlabelled : bool, default=True
        Drop rows without any label, which no single-positive method can use, with a LabelWarning.

    Returns
    -------
    sklearn.utils.Bunch
        ``X`` float32, shape (n_samples, n_features): CSR for the sets whose features are binary and mostly zero
        (density below 10 %: corel5k, rcv1-s1, corel16k-s1, delicious, tmc2007, mirflickr-tags), for netflix a DataFrame
        of its columns, else ndarray; ``Y`` uint8 ndarray of shape (n_samples, n_labels), all labels; ``label_names``,
        ``feature_names`` lists of str; ``info`` dict: the registry's entry and ``rows_dropped``.
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
        import pandas as pd

        frame, label = pd.read_csv(paths[0]), entry.options["label"]
        tags = frame[label].str.get_dummies(entry.options["separator"])
        columns = frame.drop(columns=[label, *entry.options["drop"]])
        table = Table(columns, tags.to_numpy(dtype=np.uint8), tuple(columns.columns), tuple(tags.columns))
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


def list_datasets(*, data_home: str | Path | None = None) -> "pd.DataFrame":
    """List the data sets: the paper's twelve in its order, then three with other features and a table.

    The columns are name, instances, features, labels, cardinality, matches_paper, available (all files are in the cache
    folder ``data_home``), note.
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
    """Recompute the facts of a data set: a row per fact, with ``expected`` (NaN: not known), ``found`` and ``ok``."""
    import pandas as pd

    entry = get_entry(name)
    table = load_table(entry, data_home=data_home, offline=offline, progress=progress)
    n, counts = len(table.Y), table.Y.sum(axis=1, dtype=np.int64)
    total = np.nan if hasattr(table.X, "columns") else table.X.sum(dtype=np.float64)
    # Expected, found, tolerance. A user's copy without its unlabelled rows has all labels on fewer rows. The registry
    # rounds cardinality to four decimals (three for the authors' own files) and sums to three.
    facts = {
        "instances": (n, n, 0),
        "features": (entry.features, table.X.shape[1], 0),
        "labels": (entry.labels, table.Y.shape[1], 0),
        "rows_without_label": (entry.rows_without_label - entry.instances + n, np.count_nonzero(counts == 0), 0),
        "cardinality": (entry.cardinality * entry.instances / n, counts.mean(), 1e-3),
        "feature_sum": (entry.feature_sum, total, 1e-5 * abs(entry.feature_sum or 0.0)),
    }
    report = pd.DataFrame(facts.values(), index=list(facts), columns=["expected", "found", "ok"], dtype=np.float64)
    off = (report["found"] - report["expected"]).abs()
    report["ok"] = report["expected"].isna() | (off <= report["ok"])
    return report

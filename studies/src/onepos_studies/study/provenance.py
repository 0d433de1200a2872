"""What a row belongs to: the revisions of its method and of the protocol, and its data; and whether rows repeat."""

import hashlib
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import onepos
from onepos.methods.registry import get_method
from onepos_studies.study.cells import Source, data_set

if TYPE_CHECKING:
    import pandas as pd

#: The revision of what all cells share: splits, observed labels, choice of settings, measures. Raise it if they change.
PROTOCOL = 1


def revision_of(key: str) -> int:
    """Return the declared revision of a method; 0 if its package is not installed."""
    try:
        return get_method(key).revision
    except ValueError:
        return 0


def is_current(frame: "pd.DataFrame") -> Any:
    """Return a boolean array: which rows belong to the present revisions of their method and of the protocol."""
    if not len(frame):
        return np.zeros(0, dtype=bool)
    revisions = frame["key"].map({key: revision_of(key) for key in frame["key"].unique()})
    return ((frame["revision"] == revisions) & (frame["protocol"] == PROTOCOL)).to_numpy(dtype=bool)


@cache
def commit() -> str:
    """Return the commit of the checkout that onepos is imported from; nothing for an installed copy."""
    command = ["git", "-C", str(Path(onepos.__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


@cache
def data_version(source: Source) -> str:
    """Return a hash of the features and complete labels of a data set; of a file of the user's own, its checksum."""
    if source.file:
        return source.sha256[:16]
    X, Y, *_ = data_set(source)
    if hasattr(X, "columns"):
        from pandas.util import hash_pandas_object

        X = hash_pandas_object(X, index=False).to_numpy()
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [np.ascontiguousarray(X)]
    made = hashlib.sha256(repr([X.shape, *((part.dtype.str, part.shape) for part in (*parts, Y))]).encode())
    for part in (*parts, np.ascontiguousarray(Y)):
        made.update(part.data)
    return made.hexdigest()[:16]


def full_setting(model: Any) -> str:
    """Return every parameter of an estimator as JSON, defaults included, but for those that name no setting."""
    params = model.get_params(deep=False)
    return json.dumps({name: params[name] for name in sorted(params.keys() - {"random_state", "verbose"})}, default=str)

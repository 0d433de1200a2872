"""Reading a study's results: the rows a figure is about, in a fixed order, and runs brought onto one grid."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos._typing import FloatArray
from onepos.registry import METHODS

if TYPE_CHECKING:
    import pandas as pd

#: A run: where it was looked at, and the values there.
Run = tuple[FloatArray, FloatArray]


def read_json(value: Any) -> Any:
    """Return what a JSON column holds, or None where it holds nothing (None, NaN or an empty text)."""
    return json.loads(value) if isinstance(value, str) and value.strip() else None


def method_name(key: str) -> str:
    """Return a method's name from the registry; a method unknown there is called by its key."""
    return METHODS[key].name if key in METHODS else key


def order_methods(keys: Iterable[str]) -> list[str]:
    """Return each key once: registered methods in the registry's order, then the others by name.

    Rows are written as cells finish, so their own order would differ from run to run.
    """
    place = {key: number for number, key in enumerate(METHODS)}
    return sorted(set(keys), key=lambda key: (place.get(key, len(place)), key))


def choose_rows(
    frame: "pd.DataFrame", *, dataset: str | None, selection: str | None, methods: Sequence[str] | None
) -> "pd.DataFrame":
    """Return the finished cells of one data set and one selection rule.

    Parameters
    ----------
    frame : DataFrame
        The results.
    dataset, selection : str or None
        None takes the only one there is.
    methods : sequence of str or None
        None takes all.

    Raises
    ------
    ValueError
        If None leaves a choice open, or if no finished cell is left.
    """
    rows = frame[frame["status"] == "ok"]
    if methods is not None:
        rows = rows[rows["method"].isin(list(methods))]
    for column, wanted in (("dataset", dataset), ("selection", selection)):
        present = sorted({str(value) for value in rows[column]})
        if wanted is None and len(present) > 1:
            raise ValueError(f"expected results of one {column}; got {', '.join(present)}: name one with {column}=")
        if wanted is not None:
            rows = rows[rows[column] == wanted]
            if rows.empty:
                raise ValueError(
                    f"no finished cell with {column} {wanted!r}; there are: {', '.join(present) or 'none'}"
                )
    if rows.empty:
        raise ValueError("no finished cell to draw: run the study first, or name other methods")
    return rows


def as_run(x: Sequence[Any], y: Sequence[Any]) -> Run:
    """Return a run's points as arrays, without those that have no finite value."""
    places, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if places.shape != values.shape:
        raise ValueError(f"expected as many values as places; got {values.size} values at {places.size} places")
    finite = np.isfinite(values)
    return places[finite], values[finite]


def common_grid(runs: Sequence[Run]) -> Run:
    """Return the places that every run has, and the values there, one row a run.

    A mean over whichever runs are left would jump where one of them stops.
    """
    places = sorted(set.intersection(*(set(x.tolist()) for x, _ in runs)))
    return np.asarray(places), np.array([y[np.isin(x, places)] for x, y in runs])

"""Measure a model on a labelled table, as far as its labels allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos.columns._categories import find_categories
from onepos.columns._formats import TableData
from onepos.columns._labels import indicator_columns, require_columns
from onepos.columns.encoder import Tally, shorten
from onepos.columns.scores import bootstrap_intervals, complete_values, single_positive_values
from onepos.columns.table_model import TableModel
from onepos.columns.tags import split_tags, tag_indicator
from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluation:
    """Measures with their intervals, and what they rest on.

    Attributes
    ----------
    complete_labels : bool
        True: the five measures of ``onepos.metrics``. False: only how high the one known tag is ranked.
    rows, rows_with_label : int
    measures : dict
        Name → mean, low and high end of the 95 % interval.
    notes : list of str
    """

    complete_labels: bool
    rows: int
    rows_with_label: int
    measures: dict[str, dict[str, float]]
    notes: list[str]


def evaluate_table(
    model: TableModel,
    data: TableData,
    *,
    label: str | None = None,
    separator: str | None = None,
    labels: Sequence[str] = (),
    threshold: float | None = None,
) -> Evaluation:
    """Measure a model, with 95 % bootstrap intervals over rows.

    Parameters
    ----------
    model : TableModel
    data : TableData
    label : str, optional
        The column of tags: one a row, or with ``separator`` all of the row's, joined by it.
    separator : str, optional
    labels : sequence of str
        Instead: the 0/1 columns, one for each label of the model, complete.
    threshold : float
        For Hamming loss; the model's by default.
    """
    found, complete = _labels(data, label, separator, labels)
    truth, notes = _in_order_of(model, found, named=bool(labels))
    if not label and not labels:
        # A file that carries labels does not say whether they are all; one in every row is what single positives are.
        complete = bool(((truth > 0).sum(axis=1) > 1).any())
    tally = Tally()
    scores = model.predict_proba(data.frame, tally).to_numpy()
    limit = model.thresholds_ if threshold is None else threshold
    values = complete_values(truth, scores, limit) if complete else single_positive_values(truth, scores)
    counted = int((truth > 0).any(axis=1).sum())
    notes = [*notes, *tally.notes(model.encoder_.kinds_)]
    return Evaluation(complete, len(truth), counted, bootstrap_intervals(values), notes)


def _labels(
    data: TableData, label: str | None, separator: str | None, labels: Sequence[str]
) -> tuple["pd.DataFrame", bool]:
    if label and labels:
        raise DataFileError("name the column of tags (label) or the 0/1 columns (labels), not both.")
    if separator and not label:
        raise DataFileError("a separator says how the tags of the label column are joined: name that column too.")
    if label:
        require_columns(data.frame, [label], "label")
        column = data.frame[label]
        if separator:
            return split_tags(column, separator), True
        return tag_indicator(column, find_categories(column)), False
    if data.labels is not None:
        return data.labels, True
    if labels:
        return indicator_columns(data.frame, labels), True
    raise DataFileError(
        f"say where the labels are: a column of tags (label) or the 0/1 columns (labels). The columns are: "
        f"{shorten(data.frame.columns)}."
    )


def _in_order_of(model: TableModel, found: "pd.DataFrame", *, named: bool) -> tuple[NDArray[Any], list[str]]:
    """Return the indicator with the model's labels as columns, in its order, and notes."""
    missing = [name for name in model.labels_ if name not in found.columns]
    if named and missing:
        raise DataFileError(f"labels must name every label of the model; not named: {shorten(missing, 5)}.")
    truth = found.reindex(columns=model.labels_, fill_value=0).to_numpy(dtype=np.int8)
    if not (truth > 0).any():
        raise DataFileError(
            f"no row has a label that the model knows. It knows {shorten(model.labels_)}; the data have "
            f"{shorten(found.columns)}."
        )
    unknown = [str(name) for name in found.columns if name not in model.labels_]
    return truth, [f"labels that the model does not know are not counted: {shorten(unknown, 5)}"] if unknown else []

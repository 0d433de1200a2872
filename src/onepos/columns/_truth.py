"""What is known of the labels of rows that a model is measured or calibrated on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos.columns._categories import find_categories
from onepos.columns._formats import TableData
from onepos.columns._labels import indicator_columns, require_columns
from onepos.columns.encoder import shorten
from onepos.columns.table_model import TableModel
from onepos.columns.tags import split_tags, tag_indicator
from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd


class Truth(NamedTuple):
    """Where the labels are: a column of tags, with ``separator`` of complete sets, or the complete 0/1 columns.

    Without ``separator`` a cell is read as in training, and may not hold all labels of its row.
    """

    label: str | None = None
    separator: str | None = None
    labels: Sequence[str] = ()


class Found(NamedTuple):
    """An indicator with the model's labels as columns, whether it is complete, and what the user should know."""

    truth: NDArray[Any]
    complete: bool
    notes: list[str]


def find_truth(model: TableModel, data: TableData, where: Truth) -> Found:
    """Return the labels of a table in the model's order."""
    found, complete = _labels(data, where, model.separator_)
    truth, notes = _in_order_of(model, found, named=bool(where.labels))
    if not where.label and not where.labels:
        # A file that carries labels does not say whether they are all; one in every row is what single positives are.
        complete = bool(((truth > 0).sum(axis=1) > 1).any())
    return Found(truth, complete, notes)


def _labels(data: TableData, where: Truth, in_training: str | None) -> tuple["pd.DataFrame", bool]:
    label, separator, labels = where
    if label and labels:
        raise DataFileError("name the column of tags (label) or the 0/1 columns (labels), not both.")
    if separator and not label:
        raise DataFileError("a separator says how the tags of the label column are joined: name that column too.")
    if label:
        require_columns(data.frame, [label], "label")
        column = data.frame[label]
        if separator:
            return split_tags(column, separator), True
        if in_training:
            return split_tags(column, in_training), False
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
    if not unknown:
        return truth, []
    notes = [f"labels that the model does not know are not counted: {shorten(unknown, 5)}"]
    joined = next((sign for sign in ";,|" if any(_are_known(name.split(sign), model) for name in unknown)), None)
    if joined is not None:
        notes.append(f"some of these look like sets of known labels, joined by {joined!r}: name it as the separator")
    return truth, notes


def _are_known(tags: list[str], model: TableModel) -> bool:
    return len(tags) > 1 and all(tag.strip() in model.labels_ for tag in tags)

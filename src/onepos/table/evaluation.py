"""Measure a model on a labelled table, as far as its labels allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos.exceptions import DataFileError
from onepos.label_sets.thresholds import label_sets
from onepos.table.encoder import Tally
from onepos.table.files import TableData
from onepos.table.kinds import require_columns, shorten
from onepos.table.model import TableModel
from onepos.table.scores import bootstrap_intervals, complete_values, set_scores, single_positive_values
from onepos.table.tags import indicator_columns, split_tags

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
        return split_tags(data.frame[label], separator or in_training), bool(separator)
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
    sets : dict
        ``mean_size`` of the sets that the model suggests and, with complete labels, ``true_mean_size`` and precision,
        recall and F1, micro and macro.
    notes : list of str
    """

    complete_labels: bool
    rows: int
    rows_with_label: int
    measures: dict[str, dict[str, float]]
    sets: dict[str, float]
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
        The column of tags: one per row, or with ``separator`` all of the row's, joined by it.
    separator : str, optional
    labels : sequence of str
        Instead: the 0/1 columns, one for each label of the model, complete.
    threshold : float
        From which probability on a label is in the set; the model's by default.
    """
    truth, complete, notes = find_truth(model, data, Truth(label, separator, labels))
    tally = Tally()
    scores = model.predict_proba(data.frame, tally).to_numpy()
    limit = model.thresholds_ if threshold is None else threshold
    filled = model.at_least_one_ and threshold is None
    sets = set_scores(label_sets(scores, limit, at_least_one=filled), truth if complete else None)
    values = (
        complete_values(truth, scores, limit, at_least_one=filled)
        if complete
        else single_positive_values(truth, scores)
    )
    counted = int((truth > 0).any(axis=1).sum())
    notes = [*notes, *tally.notes(model.encoder_.kinds_)]
    return Evaluation(complete, len(truth), counted, bootstrap_intervals(values), sets, notes)


def calibrate_table(
    model: TableModel,
    data: TableData,
    *,
    label: str | None = None,
    separator: str | None = None,
    labels: Sequence[str] = (),
) -> list[str]:
    """Calibrate a model on rows whose labels are all known; returns what the user should know.

    Parameters
    ----------
    model : TableModel
        Changed in place, as by ``TableModel.calibrate``.
    data : TableData
        The sample, read as the model needs it.
    label, separator : str, optional
        The column of tags, and what joins the tags of a row in it.
    labels : sequence of str
        Instead: the 0/1 columns, one for each label of the model, complete.
    """
    import pandas as pd

    if label and not separator:
        raise DataFileError("calibration needs complete sets of tags: say what joins them (separator).")
    found = find_truth(model, data, Truth(label, separator, labels))
    if not found.complete:
        raise DataFileError(
            "every row of the sample has one label, so it does not look like complete labels: calibrating on it would "
            "make all probabilities too low. Give rows of which every label is known."
        )
    model.calibrate(data.frame, pd.DataFrame(found.truth, columns=model.labels_))
    return found.notes

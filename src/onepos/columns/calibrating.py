"""Calibrate a model of tables on a table with complete labels."""

from collections.abc import Sequence

from onepos.columns._formats import TableData
from onepos.columns._truth import Truth, find_truth
from onepos.columns.table_model import TableModel
from onepos.exceptions import DataFileError


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

"""Reading what people decided about suggested labels, from the file of a review page, Label Studio or Argilla."""

import csv
import io
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import pandas as pd

from onepos.exceptions import DataFileError
from onepos.pages.annotation_tools import read_export
from onepos.table.tags import ABOUT_LABELS, ABOUT_ROWS

__all__ = ["read_decisions"]

#: A file that was not written by the page may lack the last column.
COLUMNS = ("id", "label", "decision", "annotator")


def read_decisions(path: str | PathLike[str]) -> pd.DataFrame:
    """Read the decisions that a review page saved: a CSV file in UTF-8 with the columns id, label and decision.

    A decision about a label is ``"accept"`` or ``"reject"``. About a row, without a label, it is ``"done"`` (somebody
    has looked at it) or ``"complete"`` (labels that are neither observed nor accepted are absent). Ids and labels are
    taken as they are: text, with every blank and every leading zero. The frame has one row for each id and label; where
    a pair comes more than once, its last row counts. The column annotator is optional in the file, and in the frame a
    text that may be empty. A file that is not of this form raises DataFileError, a ValueError that names the line.

    A file that ends in ``.json`` is an export of Label Studio or Argilla; see ``onepos.pages.annotation_tools``.
    """
    path = Path(path)
    if path.suffix.lower() == ".json":
        return _frame(read_export(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: expected UTF-8; byte {error.start} is not: save the file as CSV UTF-8") from error
    return _frame(_records(path, text))


def _frame(records: Iterator[list[str]]) -> pd.DataFrame:
    frame = pd.DataFrame(records, columns=list(COLUMNS), dtype=str)
    return frame.drop_duplicates(["id", "label"], keep="last", ignore_index=True)


def _records(path: Path, text: str) -> Iterator[list[str]]:
    """Yield the decisions; errors name the line on which the record starts, as a quoted field may span several."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    width = 0
    while True:
        place = f"{path}, line {reader.line_num + 1}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise DataFileError(f"{place}: {error}") from error
        if not width:
            width = len(fields or ())
            if fields not in (list(COLUMNS), list(COLUMNS[:3])):
                raise DataFileError(
                    f"{place}: expected the header {','.join(COLUMNS)}; got {fields or 'an empty line or file'}"
                )
        elif fields is None:
            return
        elif fields:
            name, label, decision = fields[:3] if len(fields) == width else ("", "", "")
            if not name or decision not in (ABOUT_LABELS if label else ABOUT_ROWS):
                raise DataFileError(
                    f"{place}: expected an id, a label, and accept or reject; or, without a label, done or complete; "
                    f"got {fields}"
                )
            yield [*fields, ""][:4]

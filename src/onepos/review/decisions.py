"""From the CSV file that the page saves to a table of decisions."""

import csv
import io
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("id", "label", "decision")
DECISIONS = ("accept", "reject")


def read_decisions(path: str | PathLike[str]) -> "pd.DataFrame":
    """Read the decisions that a review page saved.

    Parameters
    ----------
    path : str or path
        A CSV file in UTF-8 with the header ``id,label,decision``. Ids and labels are taken as they are: text, with
        every blank and every leading zero.

    Returns
    -------
    DataFrame
        Columns id, label and decision (``"accept"`` or ``"reject"``), one row for each id and label. Where a pair comes
        more than once, its last row counts.

    Raises
    ------
    DataFileError
        A ValueError that names the line, if the file is not of this form.
    """
    import pandas as pd

    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: expected UTF-8; byte {error.start} is not: save the file as CSV UTF-8") from error
    frame = pd.DataFrame(_rows(path, text), columns=list(COLUMNS), dtype=str)
    return frame.drop_duplicates(["id", "label"], keep="last", ignore_index=True)


def _rows(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    header = True
    for line, fields in _records(path, text):
        if header:
            if tuple(fields) != COLUMNS:
                raise DataFileError(f"{path}, line {line}: expected the header {','.join(COLUMNS)}; got {fields}")
            header = False
            continue
        if len(fields) != len(COLUMNS):
            raise DataFileError(f"{path}, line {line}: expected {len(COLUMNS)} fields; got {len(fields)}: {fields}")
        example, label, decision = fields
        for name, value in (("id", example), ("label", label)):
            if not value:
                raise DataFileError(f"{path}, line {line}: the {name} is empty")
        if decision not in DECISIONS:
            raise DataFileError(f"{path}, line {line}: expected accept or reject; got {decision!r}")
        yield example, label, decision
    if header:
        raise DataFileError(f"{path}, line 1: expected the header {','.join(COLUMNS)}; the file is empty")


def _records(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line it starts on: a quoted field may span several."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataFileError(f"{path}, line {line}: {error}") from error
        if fields:
            yield line, fields

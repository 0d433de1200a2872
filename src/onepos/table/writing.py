"""Write a table piece by piece, and have the file appear only when it is whole."""

import os
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from onepos._utils.files import explained, replaced_when_done
from onepos._utils.machine import require
from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd


SUFFIXES = (".csv", ".tsv", ".tab", ".parquet", ".pq")


class TableWriter:
    r"""A CSV, TSV or parquet file that grows by frames of the same columns; a context manager.

    Text files are opened by spreadsheets: with ``escape_formulas`` an apostrophe stands before each cell that these
    would compute. The readers of this package take it away again.

    Examples
    --------
    >>> import pandas as pd, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> with TableWriter(path) as table:
    ...     table.write(pd.DataFrame({"x": [1]}))
    ...     table.write(pd.DataFrame({"x": [2]}))
    >>> path.read_text()
    'x\n1\n2\n'
    """

    def __init__(self, path: str | Path, *, escape_formulas: bool = True) -> None:
        self.path = check_output(path)
        self.escape = escape_formulas
        self.rows = 0
        self.is_text = self.path.suffix.lower() not in (".parquet", ".pq")

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._part = self._stack.enter_context(replaced_when_done(self.path))
        with explained(self.path):
            self._part.touch()  # fails at once where nothing can be written, not after hours of work
        self._parquet: Any = None
        return self

    def write(self, frame: "pd.DataFrame") -> None:
        """Append the rows of a frame."""
        if not self.is_text:
            self._write_parquet(frame)
        else:
            separator = "," if self.path.suffix.lower() == ".csv" else "\t"
            (with_escapes(frame) if self.escape else frame).to_csv(
                self._part,
                sep=separator,
                index=False,
                header=not self.rows,
                mode="a" if self.rows else "w",
                lineterminator="\n",
            )
        self.rows += len(frame)

    def _write_parquet(self, frame: "pd.DataFrame") -> None:
        arrow = require("pyarrow", extra="data", purpose="writing parquet")
        parquet = require("pyarrow.parquet", extra="data", purpose="writing parquet")
        if self._parquet is None:
            table = arrow.Table.from_pandas(frame, preserve_index=False)
            self._parquet = self._stack.enter_context(parquet.ParquetWriter(self._part, table.schema))
        else:
            table = arrow.Table.from_pandas(frame, schema=self._parquet.schema, preserve_index=False)
        self._parquet.write_table(table)

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


# What a spreadsheet takes for the beginning of a formula, perhaps behind apostrophes; and numbers, which may begin so.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9.,]+([eE][+-]?[0-9]+)?%?")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would compute; numbers and other texts stay.

    Examples
    --------
    >>> [escape_formula(cell) for cell in ("=cmd()", "@sum", "-1.5", "sea", "'=x", 3)]
    ["'=cmd()", "'@sum", '-1.5', 'sea', "''=x", 3]
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def unescape_formula(cell: Any) -> Any:
    """Take back what ``escape_formula`` did.

    Examples
    --------
    >>> [unescape_formula(cell) for cell in ("'=cmd()", "''=x", "'t was", "-1.5")]
    ['=cmd()', "'=x", "'t was", '-1.5']
    """
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and _FORMULA.match(cell) else cell


def with_escapes(frame: "pd.DataFrame", change: Callable[[Any], Any] = escape_formula) -> "pd.DataFrame":
    """Return a frame whose texts and column names are escaped, or with ``unescape_formula`` as they were."""
    made = frame.rename(columns=change)
    for place, dtype in enumerate(frame.dtypes):
        if dtype.kind == "O":  # objects, strings and categories
            made.isetitem(place, frame.iloc[:, place].astype(object).map(change, na_action="ignore").array)
    return made


def as_columns(probabilities: "pd.DataFrame", *, shorten: bool) -> "pd.DataFrame":
    """Return the columns ``p(label)`` of an output; text files get six digits, which is more than anybody reads.

    Examples
    --------
    >>> import pandas as pd
    >>> as_columns(pd.DataFrame({"sea": [1 / 3]}), shorten=True)["p(sea)"].tolist()
    [0.333333]
    """
    named = probabilities.rename(columns=lambda name: f"p({name})")
    if not shorten:
        return named
    values = named.to_numpy()
    # Significant digits, not places: a rare label's probability is small, and its rank still counts.
    places = 5 - np.floor(np.log10(np.maximum(values, 1e-12)))
    return named.mask(named > 0, np.round(values * 10.0**places) / 10.0**places)


def check_output(path: str | Path) -> Path:
    """Return the path if a table can be written to it; else say why not."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise DataFileError(f"a table is written to {', '.join(SUFFIXES[:4])}; got {path.name!r}. Change its suffix.")
    return check_place(path)


def check_place(path: str | Path) -> Path:
    """Return the path if a file can be written there; else say why not, before any work is done for it."""
    path = Path(path)
    if path.is_dir():
        raise DataFileError(f"{path} is a folder; name a file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise DataFileError(f"cannot write {path}: {folder} is a file, not a folder. Choose another place.")
    if not os.access(folder, os.W_OK):
        raise DataFileError(f"cannot write {path}: no permission in {folder}. Choose another place.")
    return path

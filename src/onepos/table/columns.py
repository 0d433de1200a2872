"""What a column of one kind becomes: the base of all kinds, and the kinds of one number per cell."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils import storage
from onepos.rows.scaling import single_precision
from onepos.table.kinds import BOOLEAN, NUMBER, Tally, as_numbers

if TYPE_CHECKING:
    from onepos.table.encoder import ColumnEncoder


@dataclass(kw_only=True, eq=False)
class FittedColumn(ABC):
    """What a column became: the fields of the class determine it, and are what a model file holds.

    A new kind of column is a class like this in ``COLUMNS`` of ``encoder.py``, and a rule in ``judge``.
    """

    #: The kinds that the class encodes, as in ``ColumnEncoder.kinds_``.
    kinds: ClassVar[tuple[str, ...]]
    #: The rules of these fields.
    _stored: ClassVar[storage.Rules] = {"name": storage.TEXT, "weight": storage.NOT_NEGATIVE}
    name: str
    weight: float = 1.0  # A factor of the features; the encoder sets it

    @classmethod
    @abstractmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self | None:
        """Learn from the training rows; None if the column is not of this kind."""

    @abstractmethod
    def transform(self, column: "pd.Series[Any]", tally: Tally) -> Any:
        """Return float32 features, dense or CSR; a cell gives the same ones whatever other cells there are."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Columns of the result of ``transform``."""

    @abstractmethod
    def describe(self) -> str:
        """Return in one line what the column became."""

    @property
    def kind(self) -> str:
        """The kind of the column."""
        return self.kinds[0]


@dataclass(kw_only=True, eq=False)
class NumberColumn(FittedColumn):
    """Numbers: a gap is the median, then ``(x − shift) · factor`` standardises.

    This is done here and not only by the estimator, which leaves sparse features as they are: beside words, a price in
    thousands would drown everything.
    """

    kinds = (NUMBER,)
    line: ClassVar[str] = "number → 1 feature, standardised"
    n_features = 1
    _stored: ClassVar[storage.Rules] = {"fill": storage.FINITE, "shift": storage.FINITE, "factor": storage.POSITIVE}
    fill: float
    shift: float = 0.0
    factor: float = 1.0

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self:
        """Learn median, mean and spread."""
        name = str(column.name)
        values = as_numbers(column, name, boolean=False)
        fill = float(np.nanmedian(values))
        values = np.where(np.isnan(values), fill, values)
        shift, spread = float(values.mean()), float(values.std())
        return cls(name=name, fill=fill, shift=shift, factor=1.0 / spread if spread > 1e-10 * abs(shift) else 1.0)

    def transform(self, column: "pd.Series[Any]", tally: Tally) -> NDArray[np.float32]:
        """Return one column."""
        is_flag = self.kind == BOOLEAN
        values = as_numbers(column, self.name, boolean=is_flag)
        gaps = np.isnan(values)
        tally.count(
            self.name, gaps, f"missing, {'taken as the more frequent one' if is_flag else 'filled with the median'}"
        )
        with np.errstate(over="ignore"):  # single_precision reports it
            scaled = (np.where(gaps, self.fill, values) - self.shift) * self.factor
        made: NDArray[np.float32] = single_precision(scaled[:, None])
        return made

    def describe(self) -> str:
        """Return what every such column becomes."""
        return self.line


@dataclass(kw_only=True, eq=False)
class FlagColumn(NumberColumn):
    """Yes or no, as 1 and 0; a gap is the more frequent one."""

    kinds = (BOOLEAN,)
    line = "yes/no → 1 feature"

    @classmethod
    def fit(cls, column: "pd.Series[Any]", wanted: "ColumnEncoder") -> Self:
        """Learn which one is more frequent."""
        name = str(column.name)
        return cls(name=name, fill=float(np.nanmedian(as_numbers(column, name, boolean=True))))

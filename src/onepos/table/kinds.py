"""What a column holds: numbers, yes/no, categories or something else."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onepos.exceptions import DataFileError

if TYPE_CHECKING:
    import pandas as pd


NUMBER, BOOLEAN, CATEGORY, TEXT = "number", "boolean", "category", "text"
#: Words with many distinct values, and lists of words.
VALUES, LIST = "values", "list"
_TRUE, _FALSE = frozenset({"true", "yes"}), frozenset({"false", "no"})
# Read back from a file as text, a column that was boolean in training may also say 1 and 0.
_TRUTH = dict.fromkeys((*_TRUE, "1", "1.0"), 1.0) | dict.fromkeys((*_FALSE, "0", "0.0"), 0.0)


def kind_of(column: "pd.Series[Any]") -> str:
    """Return the kind of a column, or the name of its dtype if it is none that can be used.

    Examples
    --------
    >>> import pandas as pd
    >>> [kind_of(pd.Series(values)) for values in ([1.5, None], ["yes", "no"], ["red", "blue"])]
    ['number', 'boolean', 'category']
    """
    from pandas.api import types

    dtype = column.dtype
    if types.is_bool_dtype(dtype):
        return BOOLEAN
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return NUMBER
    if not (types.is_object_dtype(dtype) or types.is_string_dtype(dtype) or hasattr(dtype, "categories")):
        return str(dtype)
    values = column.dropna()
    odd = next((value for value in values if not isinstance(value, str | int | float | np.generic)), None)
    if odd is not None:
        return f"values of type {type(odd).__name__}"
    present = values.unique()
    if all(isinstance(value, bool | np.bool_) for value in present):
        return BOOLEAN
    if all(isinstance(value, int | float | np.number) for value in present):
        return NUMBER
    words = {str(value).strip().lower() for value in present}
    return BOOLEAN if words <= (_TRUE | _FALSE) else CATEGORY


def as_words(column: "pd.Series[Any]") -> NDArray[Any]:
    """Return the values as stripped text, None where there is none; whole numbers are written without a point."""
    from pandas.api import types

    missing = column.isna().to_numpy()
    if types.is_float_dtype(column.dtype):
        # An integer column with a gap comes as floating point: 3.0 must stay the category 3.
        words = [f"{value:g}" if float(value).is_integer() and abs(value) < 1e6 else str(value) for value in column]
    else:
        words = [str(value).strip() for value in column]
    result = np.array(words, dtype=object)
    result[missing] = None
    result[result == ""] = None
    return result


def as_numbers(column: "pd.Series[Any]", name: str, *, boolean: bool) -> NDArray[np.float64]:
    """Return the values as float64, NaN where there is none; anything else that is not a number is an error."""
    import pandas as pd

    if boolean and not pd.api.types.is_bool_dtype(column.dtype) and not pd.api.types.is_numeric_dtype(column.dtype):
        words = column.map(lambda value: str(value).strip().lower(), na_action="ignore")
        numbers = pd.Series([_TRUTH.get(word, np.nan) for word in words], index=column.index, dtype=np.float64)
        missing = column.isna() | (words == "")
    else:
        numbers = pd.to_numeric(column, errors="coerce")
        missing = column.isna()
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(values) & ~missing.to_numpy(dtype=bool))
    if wrong.size:
        raise DataFileError(
            f"column {name!r} must hold {'yes/no values' if boolean else 'numbers'} as in training; got "
            f"{str(column.iloc[wrong[0]])[:40]!r} (row {column.index[wrong[0]]}, {wrong.size} such rows). "
            "Correct them, or leave them empty."
        )
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        raise DataFileError(
            f"column {name!r} must hold finite numbers; row {column.index[infinite[0]]} is {values[infinite[0]]}. "
            "Correct it, or leave it empty."
        )
    return values

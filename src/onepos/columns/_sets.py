"""How many labels a model puts into its sets, and whether that number is known or a guess."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onepos.columns.table_model import TableModel

#: Rows by which the size of sets is told.
_MOST_ROWS = 2_000


def set_facts(model: "TableModel", features: Any, rows: NDArray[np.intp], n_positives: float | None) -> dict[str, Any]:
    """Return the mean size of the sets of some rows, from all over those given, and the number that was asked for."""
    some = rows[:: max(1, len(rows) // _MOST_ROWS)]
    sizes = model._sets(model.estimator_.predict_proba(features[some])).sum(axis=1)
    return {"mean_size": float(sizes.mean()), "n_positives": n_positives, "guessed": n_positives is None}

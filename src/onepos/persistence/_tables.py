"""The columns of a ``TableModel`` in a model file, beside its estimator."""

from typing import Any

import numpy as np

from onepos._utils import storage
from onepos.methods.registry import StoredEstimator
from onepos.persistence.rules import Part, check_json
from onepos.persistence.table_schema import TABLE, check_columns
from onepos.table import TableModel


class StoredTable(storage.Rule):
    """The rule of a ``TableModel``."""

    def write(self, value: Any, at: storage.Place) -> Any:
        """Write estimator and columns."""
        arrays, facts = value._state()
        at.arrays.update({f"table.{name}": np.ascontiguousarray(array) for name, array in arrays.items()})
        estimator = StoredEstimator().write(value.estimator_, at.at("estimator_"))
        return {"class": "TableModel", "estimator_": estimator, "table": storage.JSON.write(facts, at)}

    def read(self, found: Any, at: storage.Place) -> Any:
        """Return the model."""
        found = storage.Record({"class": storage.TEXT, "estimator_": StoredEstimator(), "table": storage.JSON}).read(
            found, at
        )
        estimator, table = found["estimator_"], found["table"]
        check_json(TABLE, table, "table", 2)
        if table["labels"] != [str(name) for name in estimator.classes_]:
            raise ValueError("table.labels must be the names of the classes")
        own = {name.removeprefix("table."): array for name, array in at.arrays.items() if name.startswith("table.")}
        at.used.update(name for name in at.arrays if name.startswith("table."))
        sizes = {"features": estimator.n_features_in_, "labels": len(estimator.classes_)}
        check_columns(Part("table.encoder", 2, table["encoder"], own, sizes, "table."))
        return TableModel._restored(estimator, own, table)

"""Which settings apply to which method, and the grid that follows."""

import inspect
from functools import cache
from itertools import product
from typing import Any

from onepos.registry import METHODS
from onepos.study.spec import DataGroup, MethodEntry, Parameters, Study


@cache
def accepted_parameters(key: str) -> frozenset[str]:
    """Return the parameters that a study may set: those of the class but ``random_state`` and ``verbose``."""
    names = inspect.signature(METHODS[key].load_class()).parameters
    return frozenset(names) - {"random_state", "verbose"}


def settings_of(study: Study, group: DataGroup, method: MethodEntry, dataset: str) -> list[Parameters]:
    """Every setting that a method tries on a data set, in the order of the grid.

    A method's own settings go before those of the data group, these before the common ones. Common and group settings
    reach only methods that have such a parameter; what is fixed by a stronger source is not tried from a weaker one.
    """
    accepted = accepted_parameters(method.key)
    fixed: Parameters = {}
    grid: dict[str, tuple[Any, ...]] = {}
    own = {**method.fixed, **method.per_dataset.get(dataset, {})}
    for new_fixed, new_grid in ((study.common, study.common_grid), (group.fixed, group.grid), (own, method.grid)):
        for name, value in new_fixed.items():
            if name in accepted:
                grid.pop(name, None)
                fixed[name] = value
        for name, values in new_grid.items():
            if name in accepted:
                fixed.pop(name, None)
                grid[name] = values
    names = list(grid)
    return [{**fixed, **dict(zip(names, values, strict=True))} for values in product(*grid.values())]

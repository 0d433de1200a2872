"""Loops over numbers, compiled by numba where it is installed (``pip install 'onepos[fast]'``).

Every one has a twin in NumPy that computes the same from the same random numbers, which is what runs without numba and
what the tests compare with; the last bits differ. Nothing here imports numba before a kernel is wanted.
"""

import os
import sys
import warnings
from functools import cache

from onepos.exceptions import TrainingWarning


@cache
def available() -> bool:
    """Whether kernels can be compiled: numba is there and works, and ``ONEPOS_COMPILED`` is not 0."""
    if os.environ.get("ONEPOS_COMPILED", "1") == "0":
        return False
    try:
        import numba  # noqa: F401
    except Exception as error:  # as a rule a NumPy that this numba does not know, or a library that it does not find
        if isinstance(error, ModuleNotFoundError) and error.name == "numba":
            return False
        warnings.warn(
            f"numba is installed but cannot be imported ({error}); training goes on without it, slower.",
            TrainingWarning,
            stacklevel=2,
        )
        return False
    return True


def loaded() -> bool:
    """Whether kernels can be compiled and numba is there already: importing it takes longer than what some save."""
    return "numba" in sys.modules and available()

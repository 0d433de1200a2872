"""``random_state`` to a NumPy generator, without importing torch and without touching global state."""

from typing import Any

import numpy as np


def generator(random_state: Any) -> np.random.Generator:
    """Turn None, an integer, a Generator or a RandomState into a Generator.

    A Generator is used as it is (its state advances); a RandomState gives the seed of a new one.

    Parameters
    ----------
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        "random_state must be None, a non-negative integer, numpy.random.Generator or "
        f"numpy.random.RandomState; got {random_state!r}."
    )

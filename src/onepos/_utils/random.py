"""One ``random_state`` in, independent generators out; nothing global is ever seeded."""

from typing import Any

import numpy as np
import torch


def seed_from(random_state: Any) -> int:
    """Turn scikit-learn's ``random_state`` (None, int, RandomState, Generator) into one integer seed."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise ValueError(
        "random_state must be None, a non-negative integer, numpy.random.RandomState or "
        f"numpy.random.Generator; got {random_state!r}."
    )


def spawn(random_state: Any, device: str = "cpu") -> tuple[np.random.Generator, torch.Generator]:
    """Return a NumPy and a torch generator, independent of each other and of all global state."""
    numpy_seed, torch_seed = np.random.SeedSequence(seed_from(random_state)).spawn(2)
    torch_generator = torch.Generator(device)
    torch_generator.manual_seed(int(torch_seed.generate_state(1, np.uint64)[0] >> np.uint64(1)))
    return np.random.default_rng(numpy_seed), torch_generator


def numpy_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator alone, for methods without a network."""
    return np.random.default_rng(np.random.SeedSequence(seed_from(random_state)).spawn(1)[0])


# ``random_state`` to a NumPy generator, without importing torch and without touching global state.


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

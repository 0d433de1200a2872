"""One ``random_state`` in, independent generators out; nothing global is ever seeded."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


def seed_from(random_state: Any) -> int:
    """Turn scikit-learn's ``random_state`` (None, int, RandomState, Generator) into one integer seed.

    Examples
    --------
    >>> seed_from(7)
    7
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise ValueError(
        "random_state must be None, a non-negative integer, numpy.random.RandomState or "
        f"numpy.random.Generator; got {random_state!r}."
    )


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator; a Generator is used as it is, and its state advances."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_from(random_state))


def numpy_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator for methods without a network: a stream of its own, as ``spawn`` has."""
    return np.random.default_rng(np.random.SeedSequence(seed_from(random_state)).spawn(1)[0])


def spawn(random_state: Any, device: str = "cpu") -> "tuple[np.random.Generator, torch.Generator]":
    """Return a NumPy and a torch generator, independent of each other and of all global state."""
    import torch

    numpy_seed, torch_seed = np.random.SeedSequence(seed_from(random_state)).spawn(2)
    torch_generator = torch.Generator(device)
    torch_generator.manual_seed(int(torch_seed.generate_state(1, np.uint64)[0] >> np.uint64(1)))
    return np.random.default_rng(numpy_seed), torch_generator

"""A network of the user's own: copied or made, tried on a few rows, and kept to the seed of the fit."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

#: Rows of the first batch that a network is tried on.
TRIED_ROWS = 2


def is_own(network: Any) -> bool:
    """Whether ``network`` is a module, or a callable that makes one."""
    return callable(network)


@contextmanager
def seeded_globals(generator: torch.Generator) -> Iterator[None]:
    """Run the body with torch's global generators seeded from ``generator``, and put their states back.

    Modules draw their first weights and their dropout from the global generators, and cannot be told otherwise. Nothing
    is drawn from ``generator`` itself.
    """
    seed = int(np.random.SeedSequence(generator.initial_seed()).generate_state(1, np.uint64)[0] >> np.uint64(1))
    kind = generator.device.type
    device = None if kind == "cpu" else getattr(torch, kind)
    others = [] if device is None else list(range(device.device_count()))
    with torch.random.fork_rng(others, device_type="cuda" if device is None else kind):
        # torch.manual_seed would seed devices that are not put back.
        torch.default_generator.manual_seed(seed)
        if device is not None:
            device.manual_seed_all(seed)
        yield


def own_network(network: nn.Module | Callable[[int, int], nn.Module], n_features: int, n_labels: int) -> nn.Module:
    """Copy a module, or let a factory make one; within ``seeded_globals``."""
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    made = network(n_features, n_labels)
    if not isinstance(made, nn.Module):
        raise TypeError(
            "network must make a torch.nn.Module when it is called with the numbers of features and of labels; "
            f"{getattr(network, '__name__', network)!s}({n_features}, {n_labels}) returned a {type(made).__name__}."
        )
    return made


def try_network(network: nn.Module, features: Tensor, n_labels: int) -> None:
    """Raise unless the network has something to train and makes one logit for each row and label of a batch."""
    name, expected = type(network).__name__, (len(features), n_labels)
    if next(network.parameters(), None) is None:
        raise ValueError(f"network must have parameters to train; {name} has none.")
    network.eval()
    try:
        with torch.no_grad():
            logits = network(features)
    except Exception as error:
        raise ValueError(
            f"the network ({name}) could not read a batch of features of shape {tuple(features.shape)}, "
            f"{features.dtype}: {type(error).__name__}: {error}"
        ) from error
    finally:
        network.train()
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        kind = f"a tensor of {logits.dtype}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise TypeError(f"the network ({name}) must return a tensor of logits, {expected} for this batch; got {kind}.")
    if tuple(logits.shape) != expected:
        raise ValueError(
            f"the network ({name}) must return one logit for each row and label: {expected} for a batch of features of "
            f"shape {tuple(features.shape)}; got {tuple(logits.shape)}. Let its last layer have {n_labels} outputs."
        )

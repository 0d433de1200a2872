"""Networks, features in and logits out: the library's own, those of users, and their outputs on many rows."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos._utils import storage
from onepos._utils.machine import require_memory
from onepos.rows.stored import rows_at_once
from onepos.training.objective import TrainingRows, as_features, gather

#: Most rows of a forward pass outside training.
_ROWS_AT_ONCE = 4096


def linear(n_inputs: int, n_outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """Return a linear layer with PyTorch's usual initialisation, U(−1/√n_inputs, 1/√n_inputs), from ``generator``."""
    _check_size([n_inputs, n_outputs], generator)
    # Where the generator is: it draws for tensors of its own device alone.
    device = "cpu" if generator is None else generator.device
    layer = nn.Linear(n_inputs, n_outputs, device="meta").to_empty(device=device)
    bound = 1.0 / math.sqrt(max(n_inputs, 1))
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


#: Bytes per weight: the weight itself; while it is trained also its gradient, two means of Adam, the best
#: epoch's and the average.
_STORED, _TRAINED = 4.0, 24.0


def _check_size(sizes: Sequence[int], generator: torch.Generator | None) -> None:
    """Raise NotEnoughMemoryError if layers of these sizes do not fit into memory; a generator says that they train."""
    n_weights, shown = 0, f"{sizes[0]:,}"
    for n_inputs, n_outputs in pairwise(sizes):
        n_weights += n_inputs * n_outputs + n_outputs
        shown += f" → {n_outputs:,}"
    n_bytes = n_weights * (_STORED if generator is None else _TRAINED)
    require_memory(n_bytes, f"the weights of a network of layers {shown}", "Choose smaller layers.")


class Dropout(nn.Module):
    """Inverted dropout whose mask comes from a generator of its own, so that runs repeat bit by bit."""

    def __init__(self, probability: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.probability = probability
        self.generator = generator

    def forward(self, values: Tensor) -> Tensor:
        """Zero entries with the given probability while training; identity otherwise."""
        if not self.training or self.probability == 0.0:
            return values
        keep = 1.0 - self.probability
        return values * torch.empty_like(values).bernoulli_(keep, generator=self.generator).div_(keep)

    def __getstate__(self) -> dict[str, object]:
        """Leave the generator behind: it belongs to the training run, not to the trained network."""
        return {**self.__dict__, "generator": None}


#: Layers of a network in a file. Each costs time to build, however small it is.
_MOST_LAYERS = 1_000


class MLP(nn.Sequential):
    """Linear layers with ReLU between them: ``sizes[0] → sizes[1] → … → sizes[-1]``.

    ``dropout`` and ``input_dropout`` are probabilities of dropping a hidden unit, and an input. The ``generator`` gives
    the initial weights and the dropout masks.
    """

    _stored: ClassVar[storage.Rules] = {
        "weights": storage.List(storage.Array("* *", "f2 f4"), least=1, most=_MOST_LAYERS),
        "biases": storage.List(storage.Array("*", "f2 f4"), least=1, most=_MOST_LAYERS),
        "dropout": storage.SHARE,
        "input_dropout": storage.SHARE,
    }

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        _check_size(sizes, generator)
        layers: list[nn.Module] = [Dropout(input_dropout, generator)] if input_dropout else []
        for position, (n_inputs, n_outputs) in enumerate(pairwise(sizes)):
            if position:
                layers.append(nn.ReLU())
                if dropout:
                    layers.append(Dropout(dropout, generator))
            layers.append(linear(n_inputs, n_outputs, generator))
        super().__init__(*layers)
        self.sizes = tuple(sizes)
        self.dropout, self.input_dropout = dropout, input_dropout

    @property
    def layers(self) -> list[nn.Linear]:
        """The linear layers."""
        return [layer for layer in self if isinstance(layer, nn.Linear)]

    @property
    def weights(self) -> list[NDArray[Any]]:
        """Weights of each layer, (n_outputs, n_inputs), as a file has them."""
        return [_in_a_file(layer.weight) for layer in self.layers]

    @property
    def biases(self) -> list[NDArray[Any]]:
        """Bias of each layer, as a file has it."""
        return [_in_a_file(layer.bias) for layer in self.layers]

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        weights, biases = fields["weights"], fields["biases"]
        sizes = [weights[0].shape[1], *(len(bias) for bias in biases)]
        shapes = [(n_outputs, n_inputs) for n_inputs, n_outputs in pairwise(sizes)]
        if [layer.shape for layer in weights] != shapes:
            raise ValueError(f"weights must be those of layers of {len(sizes):,} sizes, {sizes[:9]}")
        made = cls(sizes, dropout=fields["dropout"], input_dropout=fields["input_dropout"])
        with torch.no_grad():
            for layer, weight, bias in zip(made.layers, weights, biases, strict=True):
                layer.weight.copy_(torch.from_numpy(weight))
                layer.bias.copy_(torch.from_numpy(bias))
        return made.eval()


def _in_a_file(values: Tensor) -> NDArray[Any]:
    """Return weights in half the room if that holds the same numbers."""
    full = values.detach().cpu()
    half = full.half()
    return np.asarray((half if torch.equal(half.float(), full) else full).numpy())


@torch.no_grad()
def start_at_frequencies(network: nn.Module, frequency: NDArray[np.float64]) -> None:
    """Let the last layer start with the log-odds of how often each label was observed, whatever x is."""
    *_, last = network.children()
    assert isinstance(last, nn.Linear)
    last.weight.zero_()
    last.bias.copy_(torch.logit(torch.from_numpy(frequency)))


@contextmanager
def seeded_globals(generator: torch.Generator) -> Iterator[None]:
    """Run the body with torch's global generators, from which a user's modules draw, seeded as ``generator`` was."""
    seed = int(np.random.SeedSequence(generator.initial_seed()).generate_state(1, np.uint64)[0] >> np.uint64(1))
    kind = generator.device.type
    device = None if kind == "cpu" else getattr(torch, kind)
    others = [] if device is None else list(range(device.device_count()))
    with torch.random.fork_rng(others, device_type="cuda" if device is None else kind):
        # torch.manual_seed would also seed devices that are not restored.
        torch.default_generator.manual_seed(seed)
        if device is not None:
            device.manual_seed_all(seed)
        yield


def own_network(given: Callable[..., Any], n_features: int, features: Tensor, n_labels: int) -> nn.Module:
    """Copy the user's module, or call the user's function; raise unless a batch of features gets its logits."""
    network = copy.deepcopy(given) if isinstance(given, nn.Module) else given(n_features, n_labels)
    name, expected = type(network).__name__, (len(features), n_labels)
    if not isinstance(network, nn.Module):
        raise TypeError(
            "network must make a torch.nn.Module when it is called with the numbers of features and of labels; "
            f"{getattr(given, '__name__', given)!s}({n_features}, {n_labels}) returned a {name}."
        )
    if next(network.parameters(), None) is None:
        raise ValueError(f"network must have parameters to train; {name} has none.")
    network.to(features.device).eval()
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
    return network


@torch.no_grad()
def forward_all(network: nn.Module, features: Any, device: str) -> NDArray[Any]:
    """Return the logits of all rows in the network's own precision; floating-point features take it on."""
    dtype = next(network.parameters()).dtype
    features = as_features(features)
    pieces = []
    for index in torch.split(torch.arange(features.shape[0]), rows_at_once(features, _ROWS_AT_ONCE)):
        part = gather(features, index).to(device)
        pieces.append(network(part.to(dtype) if part.is_floating_point() else part).cpu())
        del part  # else it stays in memory while the next part is read
    return np.asarray(torch.cat(pieces).numpy())


@torch.no_grad()
def outputs_of_all(network: nn.Module, rows: TrainingRows) -> Tensor:
    """Return the logits of all rows: without dropout and without a gradient."""
    training = network.training
    network.eval()
    index = torch.arange(len(rows.observed), device=rows.observed.device)
    parts = torch.split(index, rows_at_once(rows.features, _ROWS_AT_ONCE))
    outputs = torch.cat([network(rows.gather(part)) for part in parts])
    network.train(training)
    return outputs

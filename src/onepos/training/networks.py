"""Plain networks: features in, logits out. Initialised and dropped out from a given generator."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from onepos._utils.machine import require_memory


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


#: Bytes per weight: the weight itself; while it is trained also its gradient, two means of Adam, and the best epoch's.
_STORED, _TRAINED = 4.0, 20.0


def _check_size(sizes: Sequence[int], generator: torch.Generator | None) -> None:
    """Raise NotEnoughMemoryError if layers of these sizes do not fit into memory; a generator says that they train."""
    n_weights = sum(n_inputs * n_outputs + n_outputs for n_inputs, n_outputs in pairwise(sizes))
    shown = " → ".join(f"{size:,}" for size in sizes[:6]) + (" …" if len(sizes) > 6 else "")
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


class MLP(nn.Sequential):
    """Linear layers with ReLU between them: ``sizes[0] → sizes[1] → … → sizes[-1]``.

    Parameters
    ----------
    sizes : sequence of int
        Width of every layer from input to output; two sizes make a linear model.
    dropout, input_dropout : float
        Probability of dropping a hidden unit, and an input.
    generator : torch.Generator, optional
        Source of the initial weights and of the dropout masks.
    """

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

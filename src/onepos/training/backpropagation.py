"""Cross-entropy of a network with its gradient: written out where the network is the library's own, else automatic."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from onepos import kernels
from onepos.training.losses import binary_cross_entropy, risk_weights
from onepos.training.networks import MLP
from onepos.training.objective import Differentiated, Loss

# The passes of a plain network and of its cross-entropy, forwards and backwards, without automatic differentiation.


def has_plain_passes(network: nn.Module) -> bool:
    """Whether the network is layers and ReLU and nothing else: no dropout, no forward pass of somebody else's."""
    if type(network) is not MLP or "forward" in network.__dict__:
        return False
    return not (network.dropout or network.input_dropout)


class NetworkPass:
    """A forward pass that keeps what the backward pass needs.

    Parameters
    ----------
    network : MLP
        One for which ``has_plain_passes``.
    inputs : Tensor of shape (batch, n_features)

    Examples
    --------
    >>> network = MLP([1, 1])
    >>> _ = network.requires_grad_(False)[0].weight.fill_(3.0)
    >>> passed = NetworkPass(network, torch.tensor([[2.0]]))
    >>> float(passed.gradients(torch.ones(1, 1))[network[0].weight])
    2.0
    """

    def __init__(self, network: nn.Module, inputs: Tensor) -> None:
        self.parameters = [(layer.weight, layer.bias) for layer in network.children() if isinstance(layer, nn.Linear)]
        self.inputs = [inputs]  # of each layer
        last = len(self.parameters) - 1
        for place, (weight, bias) in enumerate(self.parameters):
            output = torch.addmm(bias, self.inputs[-1], weight.t())
            self.inputs.append(output.relu_() if place < last else output)
        self.output = self.inputs.pop()

    def gradients(self, by_output: Tensor) -> dict[Tensor, Tensor]:
        """Derivatives by the parameters, from that by the output."""
        found: dict[Tensor, Tensor] = {}
        for place in range(len(self.parameters) - 1, -1, -1):
            (weight, bias), inputs = self.parameters[place], self.inputs[place]
            found[weight], found[bias] = torch.mm(by_output.t(), inputs), by_output.sum(0)
            if place:
                by_output = torch.ops.aten.threshold_backward(torch.mm(by_output, weight), inputs, 0.0)
        return found


def cross_entropy(
    logits: Tensor, targets: Tensor, weights: Tensor | None = None, n_rows: int | None = None
) -> tuple[Tensor, Tensor]:
    """Σ w·[ t·(−log f) + (1−t)·(−log(1−f)) ] / ``n_rows``, f = sigmoid(logits), and its derivative by the logits.

    ``n_rows`` are those of ``logits``, unless it says otherwise.

    Examples
    --------
    >>> value, slopes = cross_entropy(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    >>> round(float(value), 4), slopes.tolist()
    (1.3863, [[-0.5, 0.5]])
    """
    n_rows = len(logits) if n_rows is None else n_rows
    value = binary_cross_entropy_with_logits(logits, targets, weights, reduction="sum").div_(n_rows)
    slopes = torch.sigmoid(logits).sub_(targets)
    if weights is not None:
        slopes.mul_(weights)
    return value, slopes.div_(n_rows)


def single_positive_risk(logits: Tensor, soft: Tensor, positives: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """R̂_sp of Eq. (6), with weights from the logits' own confidence, and its derivative by the logits.

    The weights are taken as numbers, as in ``losses.risk_weights``.

    Examples
    --------
    >>> value, slopes = single_positive_risk(torch.zeros(1, 2), torch.ones(1, 2), torch.tensor([[1.0, 0.0]]), 0.5)
    >>> round(float(value), 4), slopes.tolist()
    (0.6931, [[-0.25, -0.25]])
    """
    kind = logits.dtype
    if kind == soft.dtype == positives.dtype == torch.float32 and logits.device.type == "cpu" and kernels.available():
        from onepos.kernels.risk import risk_and_slopes

        slopes = torch.empty_like(logits)  # in torch's memory, which is aligned: products follow
        arrays = (values.numpy() for values in (logits, soft, positives))
        total = risk_and_slopes(*arrays, np.float32(bound), slopes.numpy())
        return torch.from_numpy(np.asarray(total / max(len(logits), 1), dtype=np.float32)), slopes
    return cross_entropy(logits, soft, risk_weights(logits, positives, bound))


class Logits:
    """A network's logits for a batch, and losses of them.

    Parameters
    ----------
    network : Module
    features : Tensor, as the network takes them
    """

    def __init__(self, network: nn.Module, features: Tensor) -> None:
        self._passed: NetworkPass | None = None
        if has_plain_passes(network):
            with torch.no_grad():
                self._passed = NetworkPass(network, features)
            self.values = self._passed.output
        else:
            self.values = network(features)

    def cross_entropy(self, targets: Tensor, weights: Tensor | None = None) -> Loss:
        """Weighted binary cross-entropy, summed over labels and averaged over rows."""
        if self._passed is None:
            return binary_cross_entropy(self.values, targets, weights)
        with torch.no_grad():
            value, slopes = cross_entropy(self.values, targets, weights)
            return Differentiated(value, self._passed.gradients(slopes))

    def single_positive_risk(self, soft: Tensor, positives: Tensor, bound: float) -> Loss:
        """R̂_sp, Eq. (6), of the given soft labels; ``bound`` is κ."""
        if self._passed is None:
            return binary_cross_entropy(self.values, soft, risk_weights(self.values, positives, bound))
        with torch.no_grad():
            value, slopes = single_positive_risk(self.values, soft, positives, bound)
            return Differentiated(value, self._passed.gradients(slopes))

    def with_slopes(self, value: Tensor, slopes: Tensor) -> Loss:
        """A loss of which the value and the derivative by the logits are known."""
        if self._passed is None:
            return value + (slopes * (self.values - self.values.detach())).sum()
        return Differentiated(value, self._passed.gradients(slopes))

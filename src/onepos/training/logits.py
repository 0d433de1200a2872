"""Cross-entropy of a network with its gradient: written out where the network is the library's own, else automatic."""

import torch
from torch import Tensor, nn

from onepos.backpropagation import NetworkPass, cross_entropy, has_plain_passes, single_positive_risk
from onepos.losses import binary_cross_entropy, risk_weights
from onepos.training.differentiated import Differentiated, Loss


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

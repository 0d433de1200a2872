"""Adam with decoupled weight decay, one fused kernel call for each group of parameters.

The networks here are small and the batches too: at batch 16 most of ``torch.optim``'s time goes into its own
bookkeeping. Gradients are asked for directly, so there is nothing to zero and nothing to look up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class _Group:
    parameters: list[Tensor]
    rate_factor: float
    mean: list[Tensor] = field(default_factory=list)
    square: list[Tensor] = field(default_factory=list)
    count: Tensor = field(default_factory=lambda: torch.zeros(()))

    def __post_init__(self) -> None:
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.square = [torch.zeros_like(p) for p in self.parameters]
        self.count = torch.zeros((), device=self.parameters[0].device)


class FusedAdam:
    """AdamW over groups of (parameters, factor on the learning rate).

    Parameters
    ----------
    groups : sequence of (list of parameters, float)
    weight_decay : float
        Decoupled: each step first shrinks the parameters by ``1 − rate · weight_decay``, so its strength does not
        depend on how the loss is scaled.
    """

    def __init__(self, groups: Sequence[tuple[list[nn.Parameter], float]], weight_decay: float) -> None:
        self.groups = [_Group(list(parameters), factor) for parameters, factor in groups if parameters]
        self.parameters = [p for group in self.groups for p in group.parameters]
        self.weight_decay = weight_decay

    def step(self, loss: Tensor, rate: float) -> None:
        """Differentiate ``loss`` and take one step; parameters it does not depend on see a gradient of zero."""
        gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        start = 0
        with torch.no_grad():
            for group in self.groups:
                end = start + len(group.parameters)
                group.count.add_(1.0)
                torch._fused_adamw_(
                    group.parameters,
                    gradients[start:end],
                    group.mean,
                    group.square,
                    [],
                    [group.count] * len(group.parameters),  # they all have taken the same number of steps
                    lr=rate * group.rate_factor,
                    beta1=0.9,
                    beta2=0.999,
                    weight_decay=self.weight_decay,
                    eps=1e-8,
                    amsgrad=False,
                    maximize=False,
                    grad_scale=None,
                    found_inf=None,
                )
                start = end

"""Adam with decoupled weight decay, one fused kernel call for each group of parameters.

The networks here are small and the batches too: at batch 16 most of ``torch.optim``'s time goes into its own
bookkeeping. Gradients are asked for directly, so there is nothing to zero and nothing to look up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from onepos.training.differentiated import Differentiated, Loss
from onepos.training.processes import ALONE, Processes


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
    processes : Processes
        Whose gradients are added up before each step.
    """

    def __init__(
        self,
        groups: Sequence[tuple[list[nn.Parameter], float]],
        weight_decay: float,
        processes: Processes = ALONE,
    ) -> None:
        self.groups = [_Group(list(parameters), factor) for parameters, factor in groups if parameters]
        self.parameters = [p for group in self.groups for p in group.parameters]
        self.weight_decay = weight_decay
        self.processes = processes

    def step(self, loss: Loss, rate: float) -> None:
        """Differentiate ``loss`` and take one step; parameters it does not depend on see a gradient of zero."""
        self.apply(self.gradients(loss), rate)

    def gradients(self, loss: Loss) -> Sequence[Tensor]:
        """Derivatives of ``loss`` by the parameters, in this process."""
        if isinstance(loss, Differentiated):
            known = loss.gradients
            return [known[p] if p in known else torch.zeros_like(p) for p in self.parameters]
        return torch.autograd.grad(loss, self.parameters, materialize_grads=True)

    def apply(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Take one step along the sum of all processes' gradients."""
        if self.processes.size > 1:
            gradients = self.processes.sum(gradients)
        start = 0
        with torch.no_grad():
            for group in self.groups:
                end = start + len(group.parameters)
                group.count.add_(1.0)
                torch._fused_adamw_(
                    group.parameters,
                    list(gradients[start:end]),
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

    def state(self) -> dict[str, Tensor]:
        """Means, squares and numbers of steps by name, as ``restore`` takes them."""
        return dict(self._state())

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave."""
        for name, value in self._state():
            value.copy_(state[name])

    def _state(self) -> list[tuple[str, Tensor]]:
        named: list[tuple[str, Tensor]] = []
        for number, group in enumerate(self.groups):
            named += [(f"{number}.mean.{place}", value) for place, value in enumerate(group.mean)]
            named += [(f"{number}.square.{place}", value) for place, value in enumerate(group.square)]
            named.append((f"{number}.count", group.count))
        return named

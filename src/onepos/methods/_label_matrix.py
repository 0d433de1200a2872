"""One free parameter for every training entry (Θ of ROLE), trained by Adam at the cost of the batch's rows.

Adam over all of Θ also moves the rows outside the batch: their gradient is zero, but their momentum lives on, and a row
that is visited once in T steps travels ten to thirty times as far in these idle steps as in its own. Stepping the
batch's rows alone would therefore train Θ that much slower than the published code does; computing every
step costs n·c. Idle steps have a closed form, so a row makes them up when it is next looked at:

    Θ ← Θ − m/√v · Σ_{i=1..gap} rate(t+i) · w(t+i) · (β₁/√β₂)^i,    m ← β₁^gap m,    v ← β₂^gap v,

with w(u) = √(1−β₂^u)/(1−β₁^u), Adam's bias correction. The terms shrink by a tenth each; the sum is cut
where they are below 1e-11.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

_MEAN_DECAY, _SQUARE_DECAY = 0.9, 0.999  # β₁, β₂
_HORIZON = 256  # (β₁/√β₂)^256 = 2e-12
_ROWS = 4096


class LabelMatrix(nn.Module):
    """Logits Θ of shape (n_samples, n_labels) with Adam's state beside them, all of it in ``state_dict``.

    Parameters
    ----------
    logits : Tensor of shape (n_samples, n_labels)
        Initial Θ; taken over, not copied.

    Notes
    -----
    Equal to ``torch.optim.Adam`` over all of Θ, except that Adam's ε is left out: in idle steps it
    would have no closed form, and it only matters for gradients below about 1e-7.

    Examples
    --------
    >>> labels = LabelMatrix(torch.zeros(3, 2))
    >>> _ = labels.step(torch.tensor([1]), torch.tensor([[1.0, -2.0]]), rate=0.1)
    >>> (10 * labels.settled()).round().tolist()
    [[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0]]
    """

    state: Tensor
    last: Tensor
    now: Tensor
    pull: Tensor
    ahead: Tensor
    shrink: Tensor

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        #: Θ, m and v of every row, shape (n_samples, 3, n_labels): one gather fetches all three.
        self.register_buffer("state", torch.stack([logits, *2 * [torch.zeros_like(logits)]], dim=1))
        #: The step up to which a row has been computed, and the step that Θ is in.
        self.register_buffer("last", torch.zeros(len(logits), dtype=torch.int64, device=logits.device))
        self.register_buffer("now", torch.zeros((), dtype=torch.int64))
        #: rate(u)·w(u) of every step u so far; a fact about the run, not a state.
        self.register_buffer("pull", logits.new_zeros(1024), persistent=False)
        ahead = torch.arange(1, _HORIZON + 1, device=logits.device)
        self.register_buffer("ahead", ahead, persistent=False)
        factor = math.log(_MEAN_DECAY) - 0.5 * math.log(_SQUARE_DECAY)
        self.register_buffer("shrink", torch.exp(factor * ahead.to(logits.dtype)), persistent=False)

    @torch.no_grad()
    def read(self, rows: Tensor) -> Tensor:
        """Θ of the given rows as of now, shape (batch, n_labels)."""
        return self._present(rows)[:, 0]

    @torch.no_grad()
    def step(self, rows: Tensor, gradient: Tensor | Callable[[Tensor], Tensor], rate: float) -> Tensor:
        """Take one Adam step of Θ whose gradient is zero outside the given (distinct) rows.

        ``gradient`` has shape (batch, n_labels), or is a function of the rows' Θ that returns it. Returns that Θ, as it
        was before the step.
        """
        logits, mean, square = self._present(rows).unbind(dim=1)
        if callable(gradient):
            gradient = gradient(logits)
        now = int(self.now) + 1
        if now >= len(self.pull):
            self.pull = torch.cat([self.pull, torch.zeros_like(self.pull)])
        self.now.fill_(now)
        pull = rate * _bias_correction(now)
        self.pull[now] = pull
        mean = torch.lerp(mean, gradient, 1.0 - _MEAN_DECAY)
        square = torch.lerp(square, gradient.square(), 1.0 - _SQUARE_DECAY)
        moved = logits - pull * _ratio(mean, square)
        self.state.index_copy_(0, rows, torch.stack([moved, mean, square], dim=1))
        self.last.index_fill_(0, rows, now)
        return logits

    @torch.no_grad()
    def settled(self) -> Tensor:
        """Θ of all rows as of now, shape (n_samples, n_labels)."""
        rows = torch.arange(len(self.state), device=self.state.device)
        return torch.cat([self.read(part) for part in torch.split(rows, _ROWS)])

    def _present(self, rows: Tensor) -> Tensor:
        """Θ, m and v of the given rows after the steps since ``last``, in which their gradient was zero."""
        state, last, now = self.state.index_select(0, rows), self.last.index_select(0, rows), int(self.now)
        steps = last[:, None] + self.ahead  # (batch, horizon)
        # Steps still to come (known already if an earlier epoch has been restored) count as step 0, whose pull is 0.
        steps = steps.masked_fill_(steps > now, 0)
        travel = (self.pull.take(steps) @ self.shrink)[:, None]
        gap = (now - last).to(state.dtype)[:, None]
        logits, mean, square = state.unbind(dim=1)
        # Set to zero before it gets denormal: such numbers are slow and mean nothing here.
        fading = torch.exp(math.log(_MEAN_DECAY) * gap).masked_fill_(gap > 2 * _HORIZON, 0.0)
        settled = logits - travel * _ratio(mean, square)
        return torch.stack([settled, mean * fading, square * torch.exp(math.log(_SQUARE_DECAY) * gap)], dim=1)


def _bias_correction(step: int) -> float:
    """w(u) = √(1−β₂^u) / (1−β₁^u)."""
    square = -math.expm1(step * math.log(_SQUARE_DECAY))
    return math.sqrt(square) / -math.expm1(step * math.log(_MEAN_DECAY))


def _ratio(mean: Tensor, square: Tensor) -> Tensor:
    """m/√v, and 0 where there has never been a gradient."""
    return mean / square.sqrt().clamp(min=1e-30)

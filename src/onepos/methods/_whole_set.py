"""What the network says about every training row, between epochs."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from onepos.features import rows_at_once
from onepos.training import Rows

_ROWS = 4096


def logits_of_all(network: nn.Module, rows: Rows) -> Tensor:
    """Logits of all rows, trainable or not, shape (n_samples, n_labels): no gradient, no dropout, a part at a time."""
    return outputs_of_all(network, rows, network)


@torch.no_grad()
def outputs_of_all(network: nn.Module, rows: Rows, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """``compute`` of the features of all rows, with the network's dropout off and without a gradient.

    With several processes each computes an equal share of the rows.
    """
    training = network.training
    network.eval()
    part = rows.processes.part(rows.n_samples)
    index = part.own(torch.arange(rows.n_samples, device=rows.observed.device))
    pieces = [compute(rows.gather(some)) for some in torch.split(index, rows_at_once(rows.features, _ROWS))]
    network.train(training)
    return part.gather(torch.cat(pieces))

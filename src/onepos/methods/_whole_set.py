"""What the network says about every training row, between epochs."""

import torch
from torch import Tensor, nn

from onepos.training import Rows

_ROWS = 4096


@torch.no_grad()
def logits_of_all(network: nn.Module, rows: Rows) -> Tensor:
    """Logits of all rows, trainable or not, shape (n_samples, n_labels): no gradient, no dropout, a part at a time."""
    training = network.training
    network.eval()
    index = torch.arange(rows.n_samples, device=rows.observed.device)
    pieces = [network(rows.gather(part)) for part in torch.split(index, _ROWS)]
    network.train(training)
    return torch.cat(pieces)

"""Logits of many rows, a part at a time."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos.features import as_features, gather, rows_at_once

PREDICTION_ROWS = 4096


def forward_all(network: nn.Module, features: Any, device: str) -> NDArray[Any]:
    """Logits of all rows, in the network's own precision, at most PREDICTION_ROWS at a time."""
    dtype = next(network.parameters()).dtype
    features = as_features(features)
    pieces = []
    with torch.no_grad():
        for index in torch.split(torch.arange(features.shape[0]), rows_at_once(features, PREDICTION_ROWS)):
            # Without a name for what is read: it would live on while the next part is read beside it.
            pieces.append(network(_in_precision(gather(features, index).to(device), dtype)).cpu())
    return np.asarray(torch.cat(pieces).numpy())


def _in_precision(features: Tensor, dtype: torch.dtype) -> Tensor:
    """Floating numbers in the given type; integers, of tokens and the like, stay what they are."""
    return features.to(dtype) if features.is_floating_point() else features

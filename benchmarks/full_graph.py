"""The encoder as the formula is printed, over the whole graph for every batch. For comparison only.

It has advantages that scripts in use do not have: ÂX is computed once, and the product with Â is SciPy's, the fastest
of those tried (torch's CSR and COO products take more than twice as long), with the transposed matrix for the gradient
made beforehand. A second form, ``LentFullGraphSMILE``, is also lent our sparse first layer where ÂX is mostly zeros.
"""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from onepos import SMILEClassifier
from onepos.methods.smile.encoder import CSRRows, GraphEncoder, Neighborhood


class _SparseProduct(torch.autograd.Function):
    """A constant sparse matrix times a dense one."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Any, transposed: Any) -> Tensor:
        ctx.transposed = transposed
        return torch.from_numpy(matrix @ dense.detach().numpy())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return torch.from_numpy(ctx.transposed @ np.ascontiguousarray(gradients[0].numpy())), None, None


class FullGraphEncoder(nn.Module):
    """Â · ReLU(ÂX W₁) · W₂ on all n rows, of which a batch takes its own. Parameters, ÂX, graph: ``encoder``'s."""

    def __init__(self, encoder: GraphEncoder, *, sparse_inputs: bool = False) -> None:
        super().__init__()
        self.first, self.second = encoder.first, encoder.second
        self.log_bound = encoder.log_bound
        self.matrix = encoder.graph  # T_LE reads A from here, too
        self.transposed = sparse.csr_array(self.matrix.T)
        inputs = encoder.aggregated
        if not isinstance(inputs, Tensor):
            parts = CSRRows(inputs.data, inputs.indices, inputs.indptr)
            inputs = parts if sparse_inputs else torch.from_numpy(inputs.toarray())
        self.inputs = inputs

    def forward(self, rows: Tensor) -> Tensor:
        """Return log α and log β of the given rows beside each other, shape (batch, 2 · n_labels)."""
        hidden = torch.relu(self.first(self.inputs))  # (n, h)
        pooled = _SparseProduct.apply(hidden, self.matrix, self.transposed)  # (n, h)
        return self.second(pooled).clamp(-self.log_bound, self.log_bound)[rows]  # (n, 2c), then (batch, 2c)

    def linked(self, rows: Tensor) -> Tensor:
        """Return A among the given rows."""
        return Neighborhood(self.matrix, rows.numpy()).linked


class FullGraphSMILE(SMILEClassifier):
    """SMILE with that encoder; everything else, the drawn numbers included, is the same."""

    _sparse_inputs = False

    def _build_encoder(self, context: Any) -> Any:
        encoder, feature_scale = super()._build_encoder(context)
        return FullGraphEncoder(encoder, sparse_inputs=self._sparse_inputs), feature_scale


class LentFullGraphSMILE(FullGraphSMILE):
    """The same with our sparse product in its first layer."""

    _sparse_inputs = True

"""Every private name of scikit-learn and torch that the package uses: the one place to look at when they change.

torch is imported when one of its functions is called, so that methods without a network do not load it.
"""

from typing import TYPE_CHECKING, Any

from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Interval", "StrOptions", "dirichlet_grad", "fused_adamw_", "safe_indexing", "sample_dirichlet"]


def fused_adamw_(*tensors: Any, **settings: Any) -> None:
    """Take one AdamW step in place for a list of parameters; ``torch.optim`` adds bookkeeping to every step."""
    import torch

    torch._fused_adamw_(*tensors, **settings)


def sample_dirichlet(parameters: "Tensor", generator: Any) -> "Tensor":
    """Draw from Dirichlet distributions along the last axis; ``torch.distributions`` takes no generator."""
    import torch

    return torch._sample_dirichlet(parameters, generator=generator)


def dirichlet_grad(sample: "Tensor", parameters: "Tensor", total: "Tensor") -> "Tensor":
    """Implicit derivative of a Dirichlet sample by its parameters."""
    import torch

    return torch._dirichlet_grad(sample, parameters, total)

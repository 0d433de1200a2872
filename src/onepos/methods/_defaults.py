"""What "auto" stands for in a network's settings, as rules of the number of rows, of labels and the kind of features.

The numbers were chosen on validation rows of the sets in docs/tuning.md.
"""

import math

import torch
from torch import Tensor, nn

from onepos.dataset_rows import DatasetRows
from onepos.methods.frequency import observed_frequency
from onepos.selection import OBSERVED_LIKELIHOOD
from onepos.training import Rows

#: From so many labelled rows on a tenth of them is held out; below, the number of epochs is chosen out of fold.
ENOUGH_TO_HOLD_OUT = 1000
#: With fewer judging rows per label the place of single labels is mostly luck, and a likelihood chooses the epoch.
ROWS_PER_LABEL = 10
#: Rows to look at for what kind of features they are.
_SAMPLE = 1000


def are_bags(rows: Rows) -> bool:
    """Whether features are counts or weights of rare things, as of words: none negative, few not zero.

    Items of a Dataset are not: it would take reading many of them.
    """
    if isinstance(rows.features, DatasetRows):
        return False
    sample = rows.gather(rows.trainable[:_SAMPLE])
    return bool((sample >= 0).all()) and bool((sample != 0).float().mean() < 0.25)


def auto_batch_size(n_rows: int) -> int:
    """Return the power of 2 that is nearest to a fiftieth of the rows, from 16 to 128.

    Examples
    --------
    >>> [auto_batch_size(n) for n in (100, 2000, 4000, 100_000)]
    [16, 32, 64, 128]
    """
    return int(min(max(16, 2 ** round(math.log2(max(n_rows, 1) / 50))), 128))


def auto_learning_rate(batch_size: int, *, bags: bool) -> float:
    """Return 1e-3 at batches of 16, growing with the root of the batch size; half of it for bags of rare features.

    Examples
    --------
    >>> auto_learning_rate(16, bags=False), auto_learning_rate(64, bags=False), auto_learning_rate(64, bags=True)
    (0.001, 0.002, 0.001)
    """
    return (0.5e-3 if bags else 1e-3) * math.sqrt(batch_size / 16)


def auto_selection_metric(n_judging: int, n_labels: int, *, full: bool) -> str:
    """Return what chooses the epoch: average precision, or the likelihood if there are few judging rows per label.

    Examples
    --------
    >>> auto_selection_metric(100, 50, full=False), auto_selection_metric(100, 50, full=True)
    ('observed_likelihood', 'average_precision')
    """
    return OBSERVED_LIKELIHOOD if not full and n_judging < ROWS_PER_LABEL * n_labels else "average_precision"


@torch.no_grad()
def start_at_frequencies(network: nn.Module, observed: Tensor) -> None:
    """Let the last layer begin with the log-odds of how often each label was observed, whatever x is.

    Parameters
    ----------
    network : MLP
    observed : int8 Tensor of shape (n_samples, n_labels)
        Of the rows to train on.
    """
    last = [layer for layer in network.children() if isinstance(layer, nn.Linear)][-1]
    share = torch.from_numpy(observed_frequency(observed.cpu().numpy()))
    last.weight.zero_()
    last.bias.copy_(torch.logit(share))

"""What is settled before training: the meaning of "auto", the number of epochs, the start of the hidden layers.

The numbers were chosen on validation rows of the sets in docs/tuning.md.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos._utils.context import stage
from onepos.label_sets.thresholds import observed_frequency
from onepos.rows.stored import DatasetRows
from onepos.training import Batch, Objective, Rows, Schedule, train
from onepos.training.loop import OBSERVED_LIKELIHOOD, clearly_more_likely, higher_is_better, selection_score
from onepos.training.losses import feature_reconstruction, softmax_cross_entropy
from onepos.training.machine import limited_threads, useful_threads
from onepos.training.networks import MLP

#: With at least so many labelled rows a tenth of them is held out; with fewer, epochs are chosen out of fold.
ENOUGH_TO_HOLD_OUT = 1000
#: With fewer judging rows per label the place of single labels is mostly luck, and a likelihood chooses the epoch.
ROWS_PER_LABEL = 10
#: Rows to look at for what kind of features they are.
_SAMPLE = 1000


def are_bags(rows: Rows) -> bool:
    """Whether features are counts or weights of rare things, such as words: none negative, few not zero.

    Items of a Dataset are not looked at, since many of them would have to be read.
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


def auto_selection_metric(n_judging: int, n_labels: int) -> str:
    """Return what chooses the epoch on single positives: the likelihood if there are few judging rows per label.

    Examples
    --------
    >>> auto_selection_metric(100, 50), auto_selection_metric(500, 50)
    ('observed_likelihood', 'average_precision')
    """
    return OBSERVED_LIKELIHOOD if n_judging < ROWS_PER_LABEL * n_labels else "average_precision"


@torch.no_grad()
def start_at_frequencies(network: nn.Module, observed: Tensor) -> None:
    """Let the last layer start with the log-odds of how often each label was observed, whatever x is."""
    last = [layer for layer in network.children() if isinstance(layer, nn.Linear)][-1]
    share = torch.from_numpy(observed_frequency(observed.cpu().numpy()))
    last.weight.zero_()
    last.bias.copy_(torch.logit(share))


# How many epochs to train for when there are too few rows to hold any out: chosen out of fold.


N_FOLDS = 4

#: Trains on the first rows, and returns logits of the second, before the first epoch and after each; True: Ctrl-C.
Run = Callable[[NDArray[np.intp], NDArray[np.intp]], tuple[Sequence[NDArray[np.float32]], bool]]


@dataclass(frozen=True)
class OutOfFold:
    """The number of epochs that did best, and the logits after so many, of shape (n_labelled, n_labels)."""

    n_epochs: int
    logits: NDArray[np.float32]
    interrupted: bool = False


def choose_epochs(
    run: Run, observed: NDArray[np.int8], labelled: NDArray[np.intp], metric: str, generator: np.random.Generator
) -> OutOfFold:
    """Choose among the epochs that every fold has reached, 0 included; Ctrl-C leaves 0.

    ``labelled`` are the rows with an observed positive, which ``generator`` deals into folds.
    """
    folds = [np.sort(part) for part in np.array_split(generator.permutation(labelled), N_FOLDS)]
    told = []
    for number, out in enumerate(folds):
        # The last run, on all rows, has its turn too.
        with stage(number / (N_FOLDS + 1), (number + 1) / (N_FOLDS + 1), time_share=1 / (N_FOLDS + 1 - number)):
            found, interrupted = run(np.setdiff1d(labelled, out, assume_unique=True), out)
        if interrupted:  # one Ctrl-C, one end
            return OutOfFold(0, np.empty((0, observed.shape[1]), dtype=np.float32), interrupted=True)
        told.append(found)
    truth = observed[np.concatenate(folds)]
    sign = 1.0 if higher_is_better(metric) else -1.0
    together = [np.concatenate(parts) for parts in zip(*told, strict=False)]
    scores = [sign * selection_score(metric, truth, logits) for logits in together]
    best = int(np.argmax(scores))
    # The largest of many noisy values is too large: the start, the label frequencies, is left only for a clear gain.
    if metric == OBSERVED_LIKELIHOOD and not clearly_more_likely(truth, together[best], together[0]):
        best = 0
    return OutOfFold(best, together[best])


#: Share of the features that are hidden, unless the network drops others itself.
HIDDEN_SHARE = 0.5


_SHARED: ContextVar[dict[Any, Any] | None] = ContextVar("onepos_shared_pretraining", default=None)


@contextmanager
def shared_pretraining() -> Iterator[None]:
    """Pretrain once inside: later networks of the same sizes start with the hidden layers of the first.

    For networks that are trained on different parts of the same rows. These layers do not depend on labels.
    """
    token = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(token)


class FeatureObjective(Objective):
    """Reconstruct a row's features from a part of them: by a softmax if they are shares of a bag, else as numbers."""

    def __init__(self, network: nn.Module, *, bags: bool) -> None:
        super().__init__(network)
        self.bags = bags

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        """One loss, one step."""
        told = self.network(batch.features)
        loss = softmax_cross_entropy if self.bags else feature_reconstruction
        yield "features", loss(told, batch.features)


def pretrain(
    network: nn.Module, rows: Rows, schedule: Schedule, n_epochs: int, generator: torch.Generator
) -> dict[str, Any]:
    """Train the hidden layers of ``network`` to reconstruct the features of ``rows``, in place; returns facts about it.

    The schedule is that of the training that follows. Several processes each do all of it, with the same result.
    """
    if not n_epochs:
        return {}
    if type(network) is not MLP or len(network.sizes) < 3:
        found = "a network without one" if type(network) is MLP else f"a network of your own ({type(network).__name__})"
        raise ValueError(
            "pretraining_epochs trains the hidden layers of the library's own network; got "
            f"{found}. Give network as sizes, such as (256,), or set pretraining_epochs=0."
        )
    shared, key = _SHARED.get(), (tuple(network.sizes[:-1]), n_epochs)
    if shared is not None and key in shared:
        for ours, state in zip(_hidden_layers(network), shared[key], strict=True):
            ours.load_state_dict(state)
        return {"pretraining_epochs": 0}
    sizes = [*network.sizes[:-1], network.sizes[0]]
    hidden_share = network.input_dropout or HIDDEN_SHARE
    teller = MLP(sizes, dropout=network.dropout, input_dropout=hidden_share, generator=generator)
    pairs = list(zip(_hidden_layers(network), _hidden_layers(teller), strict=True))
    for ours, theirs in pairs:
        theirs.load_state_dict(ours.state_dict())
    objective = FeatureObjective(teller, bags=are_bags(rows)).to(rows.observed.device)
    steps = Schedule(n_epochs, schedule.batch_size, schedule.learning_rate)
    with limited_threads(useful_threads(steps.batch_size, sum(p.numel() for p in objective.parameters()))):
        history = train(objective, Rows(rows.features, rows.observed, rows.trainable), steps, generator)
    for ours, theirs in pairs:
        ours.load_state_dict(theirs.state_dict())
    if shared is not None:
        shared[key] = [theirs.state_dict() for _, theirs in pairs]
    facts: dict[str, Any] = {"pretraining_epochs": len(history)}
    if len(history):
        facts["pretraining_loss"] = history[-1]["loss"]
    if history.facts["stopped"] == "interrupted":
        facts["stopped"] = "interrupted"
    return facts


def _hidden_layers(network: nn.Module) -> list[nn.Linear]:
    return [layer for layer in network.children() if isinstance(layer, nn.Linear)][:-1]

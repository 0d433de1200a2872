"""Hidden layers that first learn the features' own structure, from all rows, before any label.

Half of a row's features are hidden from the network, which shall tell all of them: denoising, as of old (Vincent et
al., "Extracting and Composing Robust Features with Denoising Autoencoders", ICML 2008). What hangs together in the
features need not be learnt from single labels then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from onepos.methods._neural_defaults import are_bags
from onepos.training import Batch, Objective, Rows, Schedule, train
from onepos.training.losses import feature_reconstruction, softmax_cross_entropy
from onepos.training.machine import limited_threads, useful_threads
from onepos.training.networks import MLP

#: Share of the features that are hidden, unless the network drops others itself.
HIDDEN_SHARE = 0.5

_SHARED: ContextVar[dict[Any, Any] | None] = ContextVar("onepos_shared_pretraining", default=None)


@contextmanager
def shared_pretraining() -> Iterator[None]:
    """Pretrain once inside: later networks of the same sizes begin with the hidden layers of the first.

    For networks that are trained on different parts of the same rows. Labels play no part in these layers.
    """
    token = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(token)


class FeatureObjective(Objective):
    """Tell a row's features from a part of them.

    Parameters
    ----------
    network : module from features to as many numbers, which drops inputs while it is trained
    bags : bool
        Whether features are shares of a bag, told by a softmax, or numbers, told with squared error.
    """

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
    """Train the hidden layers of ``network`` to tell the features of ``rows``, in place, and return facts about it.

    With several processes each does the same for itself: nothing has to be said, and all come to the same weights.

    Parameters
    ----------
    network : MLP with a hidden layer
    rows : Rows
        Those to train on; labels are not looked at.
    schedule : Schedule
        Batches and learning rate are those of the training that follows.
    n_epochs : int
        0: nothing is done.
    generator : torch.Generator
        Draws the start of the output layer, what is hidden, and the order of rows.
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

"""Pretraining: hidden layers learn the structure of the features before they see a label.

The network reconstructs all features of a row from half of them, as a denoising autoencoder does (Vincent et al.,
"Extracting and Composing Robust Features with Denoising Autoencoders", ICML 2008).
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

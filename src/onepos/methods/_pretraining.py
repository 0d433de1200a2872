"""Hidden layers that first learn to reconstruct features: ``pretraining_epochs`` of the neural methods."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from onepos._utils.context import setting
from onepos.training import Batch, Objective, Schedule, TrainingRows, train
from onepos.training.losses import feature_reconstruction, softmax_cross_entropy
from onepos.training.machine import limited_threads, useful_threads
from onepos.training.networks import MLP

#: Share of the features that are hidden, unless the network drops others itself.
_HIDDEN_SHARE = 0.5

#: Hidden layers by sizes and epochs, inside ``shared_pretraining``.
_SHARED: ContextVar[dict[Any, Any] | None] = ContextVar("onepos_shared_pretraining", default=None)


def shared_pretraining() -> AbstractContextManager[None]:
    """Pretrain once in the body, without labels: later networks of the same sizes start with the first's layers."""
    return setting(_SHARED, {})


class _FeatureObjective(Objective):
    """Reconstruct a row's features from a part of them: by a softmax if they are bags, else as numbers."""

    def __init__(self, network: nn.Module, *, bags: bool) -> None:
        super().__init__(network)
        self.loss = softmax_cross_entropy if bags else feature_reconstruction

    def losses(self, batch: Batch) -> Iterator[tuple[str, Tensor]]:
        yield "features", self.loss(self.network(batch.features), batch.features)


def pretrain(
    network: nn.Module, rows: TrainingRows, schedule: Schedule, n_epochs: int, generator: torch.Generator, *, bags: bool
) -> dict[str, Any]:
    """Train the hidden layers of ``network`` in place, in every process alike, and return facts for the history."""
    if type(network) is not MLP or len(network.sizes) < 3:
        found = "a network without one" if type(network) is MLP else f"a network of your own ({type(network).__name__})"
        raise ValueError(
            "pretraining_epochs trains the hidden layers of the library's own network; got "
            f"{found}. Give network as sizes, such as (256,), or set pretraining_epochs=0."
        )
    shared, key = _SHARED.get(), (tuple(network.sizes[:-1]), n_epochs)
    layers = _hidden_layers(network)
    if shared is not None and key in shared:
        layers.load_state_dict(shared[key])
        return {"pretraining_epochs": 0}
    sizes = [*network.sizes[:-1], network.sizes[0]]
    hidden_share = network.input_dropout or _HIDDEN_SHARE
    student = MLP(sizes, dropout=network.dropout, input_dropout=hidden_share, generator=generator)
    _hidden_layers(student).load_state_dict(layers.state_dict())
    objective = _FeatureObjective(student, bags=bags).to(rows.trainable.device)
    steps = Schedule(n_epochs, schedule.batch_size, schedule.learning_rate)
    with limited_threads(useful_threads(steps.batch_size, sum(p.numel() for p in objective.parameters()))):
        history = train(objective, TrainingRows(rows.features, rows.observed, rows.trainable), steps, generator)
    learnt = _hidden_layers(student).state_dict()
    layers.load_state_dict(learnt)
    if shared is not None:
        shared[key] = learnt
    facts: dict[str, Any] = {"pretraining_epochs": len(history)}
    if len(history):
        facts["pretraining_loss"] = history[-1]["loss"]
    if history.facts["stopped"] == "interrupted":
        facts["stopped"] = "interrupted"
    return facts


def _hidden_layers(network: nn.Module) -> nn.ModuleList:
    return nn.ModuleList([layer for layer in network.children() if isinstance(layer, nn.Linear)][:-1])

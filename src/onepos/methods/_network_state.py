"""A trained network, its scaling and its history as arrays and JSON-able facts, and back."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from onepos.exceptions import ModelFileError
from onepos.networks import MLP
from onepos.scaling import FeatureScaler
from onepos.training import History


def store_network(
    network: nn.Module, scaler: FeatureScaler, history: History, *, own: bool
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays by name and facts; only networks that can be rebuilt from their sizes are stored, no user's own."""
    if own or not isinstance(network, MLP):
        raise ModelFileError(
            f"a model with a network of your own ({type(network).__name__}) cannot be saved to a file that is safe to "
            "open: rebuilding it would have to run code. Keep its weights with "
            "torch.save(model.network_.state_dict(), path), to be loaded into a network made by the same code, or the "
            "whole model with joblib.dump(model, path), which only you should open."
        )
    arrays = {f"network.{name}": value.cpu().numpy() for name, value in network.state_dict().items()}
    if scaler.shift is not None and scaler.factor is not None:
        arrays |= {"scaler.shift": scaler.shift, "scaler.factor": scaler.factor}
    facts = {
        "sizes": list(network.sizes),
        "dropout": network.dropout,
        "input_dropout": network.input_dropout,
        "scale": scaler.kind,
        "history": {"records": history.records, "facts": history.facts},
    }
    return arrays, facts


def restore_network(arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> tuple[MLP, FeatureScaler, History]:
    """Rebuild what ``store_network`` described; shapes that do not fit raise ModelFileError."""
    sizes = facts["sizes"]
    if not isinstance(sizes, list) or not all(type(size) is int and size > 0 for size in sizes):
        raise ModelFileError(f"the sizes of a network must be positive whole numbers; the file says {sizes!r}.")
    expected = sum(a * b + b for a, b in pairwise(sizes))
    weights = {k.removeprefix("network."): torch.from_numpy(v) for k, v in arrays.items() if k.startswith("network.")}
    # Checked before anything is allocated: a file must not be able to ask for more memory than it holds.
    if sum(w.numel() for w in weights.values()) != expected:
        raise ModelFileError(f"the stored weights do not belong to a network of sizes {sizes}.")
    # Files written before there was an input dropout do not say it.
    network = MLP(sizes, dropout=facts["dropout"], input_dropout=facts.get("input_dropout", 0.0))
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelFileError(f"the stored weights do not fit a network of sizes {sizes}: {error}") from error
    scaler = FeatureScaler(
        facts["scale"],
        None if facts["scale"] == "none" else np.asarray(arrays["scaler.shift"]),
        None if facts["scale"] == "none" else np.asarray(arrays["scaler.factor"]),
    )
    return network.eval(), scaler, History(facts["history"]["records"], facts["history"]["facts"])

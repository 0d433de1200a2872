"""Networks outside the training loop: stored in files, brought by users, applied to all rows."""

import copy
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos._utils.validation import Labels
from onepos.exceptions import ModelFileError
from onepos.rows.scaling import FeatureScaler
from onepos.rows.stored import DatasetRows, rows_at_once
from onepos.training import History, Processes, Rows
from onepos.training.networks import MLP
from onepos.training.objective import as_features, gather


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
    arrays = {f"network.{name}": _shortened(value.cpu()).numpy() for name, value in network.state_dict().items()}
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


def _shortened(values: Tensor) -> Tensor:
    """The same numbers with 16 bits each, if they have them."""
    half = values.half()
    return half if torch.equal(half.float(), values) else values


@torch.no_grad()
def round_weights(network: nn.Module) -> None:
    """Round weights to 16 bits, so that a model file needs half the room; larger numbers than fit there stay."""
    for weights in network.parameters():
        half = weights.half()
        weights.copy_(torch.where(half.isfinite(), half.float(), weights))


def restore_network(arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> tuple[MLP, FeatureScaler, History]:
    """Rebuild what ``store_network`` described."""
    weights = {k.removeprefix("network."): torch.from_numpy(v) for k, v in arrays.items() if k.startswith("network.")}
    # Files written before there was an input dropout do not say it.
    network = MLP(facts["sizes"], dropout=facts["dropout"], input_dropout=facts.get("input_dropout", 0.0))
    network.load_state_dict(weights)
    scaler = FeatureScaler(facts["scale"], arrays.get("scaler.shift"), arrays.get("scaler.factor"))
    return network.eval(), scaler, History(facts["history"]["records"], facts["history"]["facts"])


#: Rows of the first batch that a network is tried on.
TRIED_ROWS = 2


def is_own(network: Any) -> bool:
    """Whether ``network`` is a module, or a callable that makes one."""
    return callable(network)


@contextmanager
def seeded_globals(generator: torch.Generator) -> Iterator[None]:
    """Run the body with torch's global generators seeded from ``generator``, and put their states back.

    Modules draw their first weights and their dropout from the global generators, and cannot be told otherwise. Nothing
    is drawn from ``generator`` itself.
    """
    seed = int(np.random.SeedSequence(generator.initial_seed()).generate_state(1, np.uint64)[0] >> np.uint64(1))
    kind = generator.device.type
    device = None if kind == "cpu" else getattr(torch, kind)
    others = [] if device is None else list(range(device.device_count()))
    with torch.random.fork_rng(others, device_type="cuda" if device is None else kind):
        # torch.manual_seed would seed devices that are not put back.
        torch.default_generator.manual_seed(seed)
        if device is not None:
            device.manual_seed_all(seed)
        yield


def own_network(network: nn.Module | Callable[[int, int], nn.Module], n_features: int, n_labels: int) -> nn.Module:
    """Copy a module, or let a factory make one; within ``seeded_globals``."""
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    made = network(n_features, n_labels)
    if not isinstance(made, nn.Module):
        raise TypeError(
            "network must make a torch.nn.Module when it is called with the numbers of features and of labels; "
            f"{getattr(network, '__name__', network)!s}({n_features}, {n_labels}) returned a {type(made).__name__}."
        )
    return made


def try_network(network: nn.Module, features: Tensor, n_labels: int) -> None:
    """Raise unless the network has something to train and makes one logit for each row and label of a batch."""
    name, expected = type(network).__name__, (len(features), n_labels)
    if next(network.parameters(), None) is None:
        raise ValueError(f"network must have parameters to train; {name} has none.")
    network.eval()
    try:
        with torch.no_grad():
            logits = network(features)
    except Exception as error:
        raise ValueError(
            f"the network ({name}) could not read a batch of features of shape {tuple(features.shape)}, "
            f"{features.dtype}: {type(error).__name__}: {error}"
        ) from error
    finally:
        network.train()
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        kind = f"a tensor of {logits.dtype}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise TypeError(f"the network ({name}) must return a tensor of logits, {expected} for this batch; got {kind}.")
    if tuple(logits.shape) != expected:
        raise ValueError(
            f"the network ({name}) must return one logit for each row and label: {expected} for a batch of features of "
            f"shape {tuple(features.shape)}; got {tuple(logits.shape)}. Let its last layer have {n_labels} outputs."
        )


#: Settings that change how a run is shown or where it computes, not what it computes.
_NO_MATTER = ("verbose", "random_state", "device", "cache_folder")

#: Rows whose features are looked at.
_SAMPLE = 64


def check_same_data(X: Any, labels: Labels, processes: Processes) -> None:
    """Raise unless all processes were given the same number of rows and features, and the same labels."""
    if processes.size == 1:
        return
    everyones = processes.gather_values((*X.shape, *labels.observed.shape[1:], _hash(labels.observed)))
    if len(set(everyones)) > 1:
        rows = ", ".join(f"{found[0]} rows of {found[1]} features" for found in everyones)
        raise ValueError(
            f"every process must be given the same X and y, all rows of them, and reads what it needs; they got "
            f"{rows}, or labels that differ. Pass the whole memory-mapped array in each process."
        )


def run_identity(
    estimator: Any, seed: int, X: Any, labels: Labels, trainable: NDArray[np.intp], scaler: FeatureScaler
) -> dict[str, Any]:
    """Return JSON-able values that differ between runs that would not end in the same model."""
    settings = {
        f"setting {name}": _text(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NO_MATTER
    }
    scaling = [values for values in (scaler.shift, scaler.factor) if values is not None]
    return {
        "method": type(estimator).__name__,
        "seed": seed,
        **settings,
        "number of rows": int(X.shape[0]),
        "number of features": int(X.shape[1]),
        "labels": _hash(labels.observed),
        "rows trained on": _hash(trainable),
        "features": _hash(*scaling, *_some_rows(X)),
    }


def _some_rows(X: Any) -> list[NDArray[Any]]:
    """A few rows across the data; none of a Dataset, whose items may be drawn at random."""
    if isinstance(X, DatasetRows):
        return []
    index = np.unique(np.linspace(0, X.shape[0] - 1, _SAMPLE).astype(np.int64))
    if hasattr(X, "indptr"):
        return [X[index].toarray()]
    return [np.asarray(X[index])]


def _hash(*arrays: NDArray[Any]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(repr((array.dtype.str, array.shape)).encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def _text(value: Any) -> str:
    """Describe a setting the same way in every process: without addresses in memory."""
    if callable(value) and not isinstance(value, nn.Module):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return repr(value)


#: Rows of a forward pass over many rows.
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


def logits_of_all(network: nn.Module, rows: Rows) -> Tensor:
    """Logits of all rows, trainable or not, shape (n_samples, n_labels): no gradient, no dropout, a part at a time."""
    return outputs_of_all(network, rows, network)


@torch.no_grad()
def outputs_of_all(network: nn.Module, rows: Rows, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """``compute`` of the features of all rows, with the network's dropout off and without a gradient."""
    training = network.training
    network.eval()
    index = torch.arange(rows.n_samples, device=rows.observed.device)
    pieces = [compute(rows.gather(some)) for some in torch.split(index, rows_at_once(rows.features, PREDICTION_ROWS))]
    network.train(training)
    return torch.cat(pieces)


def check_embeds(network: nn.Module) -> None:
    """Raise unless ``embed`` knows what the network's embedding is."""
    if not callable(getattr(network, "embed", None)) and _head(network) is None:
        raise ValueError(
            f"graph_on='embeddings' needs to know what the embedding of a row is: give {type(network).__name__} a "
            "method embed(features) that returns it, shape (batch, size), or build the network as nn.Sequential with a "
            "linear layer, whose input is taken."
        )


def embed(network: nn.Module, features: Tensor) -> Tensor:
    """Return the embeddings of a batch, float32 (batch, size): ``network.embed``, or the last linear layer's input.

    Examples
    --------
    >>> import torch
    >>> network = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(4, 2))
    >>> embed(network, torch.tensor([[[-1.0, 2.0], [3.0, -4.0]]])).tolist()
    [[0.0, 2.0, 3.0, 0.0]]
    """
    if callable(getattr(network, "embed", None)):
        values: Tensor = network.embed(features)  # type: ignore[operator]
    else:
        values = features
        for layer in list(network.children())[: _head(network)]:
            values = layer(values)
    return values.flatten(1).float()


def _head(network: nn.Module) -> int | None:
    """Place of the last linear layer in a sequence of layers; None where there is none."""
    if not isinstance(network, nn.Sequential):
        return None
    places = [place for place, layer in enumerate(network) if isinstance(layer, nn.Linear)]
    return places[-1] if places else None

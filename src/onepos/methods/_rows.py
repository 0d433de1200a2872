"""Rows of a training set: which are held out, scores that came with them, and network outputs for all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepos._utils.validation import Labels
from onepos.rows.tensors import as_features, gather, rows_at_once
from onepos.training import Rows

#: With fewer rows there are so many folds instead of one part that is held out.
FEW_ROWS, N_FOLDS = 2000, 5


def hold_out(
    observed: NDArray[np.int8], labelled: NDArray[np.intp], fraction: float, generator: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split ``labelled`` row numbers at random into (train, held out); every label keeps a row to train on."""
    shuffled = generator.permutation(labelled)
    first_label = observed[shuffled].argmax(axis=1)
    _, first_rows = np.unique(first_label, return_index=True)
    spare = np.setdiff1d(np.arange(len(shuffled)), first_rows, assume_unique=True)
    n_held = min(max(1, round(fraction * len(labelled))), len(spare))
    held = np.sort(shuffled[spare[:n_held]])
    if n_held == 0:
        raise ValueError(
            f"cannot hold out a validation part: {len(labelled)} rows for {len(first_rows)} observed labels. "
            "Pass validation=(X_val, Y_val), or early_stopping=False."
        )
    return np.setdiff1d(labelled, held, assume_unique=True), held


def splits(
    observed: NDArray[np.int8], fraction: float, generator: np.random.Generator
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split all rows into (train, held out): once, or into folds if a part of the rows were too few to choose by."""
    rows = np.arange(len(observed))
    if len(rows) >= FEW_ROWS:
        return [hold_out(observed, rows, fraction, generator)]
    n_folds = min(N_FOLDS, len(rows))
    fold = generator.permutation(len(rows)) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def check_label_scores(label_scores: Any, labels: Labels, method: str, *, used: bool) -> Tensor | None:
    """Return the scores as float32, shape (n_samples, n_labels), columns in the order of training; None if none came.

    The columns of a frame are matched by name. ``method`` is the estimator's name, for the message.
    """
    if label_scores is None:
        return None
    if not used:
        raise ValueError(
            f"{method} cannot use label_scores. Leave them out, or take a method that can: role, em, em-apl."
        )
    names = labels.classes.tolist()
    if hasattr(label_scores, "columns"):
        missing = [name for name in names if name not in label_scores.columns]
        if missing or len(label_scores.columns) != len(names):
            raise ValueError(
                f"the columns of label_scores must be the labels of y, {names[:5]}…; "
                f"got {label_scores.columns.tolist()[:5]}…"
            )
        label_scores = label_scores[names]
    scores = np.asarray(label_scores, dtype=np.float32)
    if scores.shape != labels.observed.shape:
        raise ValueError(
            f"label_scores must have a row for each row of y and a column for each label, shape "
            f"{labels.observed.shape}; got {scores.shape}."
        )
    outside = scores[~(np.isnan(scores) | ((scores >= 0) & (scores <= 1)))]
    if outside.size:
        raise ValueError(
            f"label_scores must be probabilities, between 0 and 1, or NaN where nothing is known; got {outside[0]}. "
            "Logits become probabilities by scipy.special.expit."
        )
    return torch.from_numpy(np.ascontiguousarray(scores))


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

"""What a network makes of a row before its last layer."""

from torch import Tensor, nn


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

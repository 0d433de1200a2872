"""EfficientNet-Lite0 (Google, 2020) without its last layer, in plain torch: a picture becomes 1,280 numbers.

The weights were trained on ImageNet and come as a package. Each batch normalisation is folded into the convolution
before it, as only predictions are made.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

SIDE, MEAN, SCALE = 224, 127.0, 128.0  # Of its input: pixels per side, and (value - mean) / scale of the 256 shades
_STEM, _HEAD = 32, 1280
#: Stages of blocks: how many, kernel, stride of the first one, expansion of the channels inside, channels.
_STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192))
_LAST_STAGE = (1, 3, 1, 6, 320)
_EPSILON = 1e-3  # of the batch normalisation


class _Convolution(nn.Module):
    """A convolution that keeps the size of the picture, or halves it as TensorFlow does: odd padding at the end."""

    def __init__(
        self, channels: int, out: int, kernel: int, stride: int = 1, *, groups: int = 1, bounded: bool = True
    ) -> None:
        super().__init__()
        before = (kernel - stride) // 2
        self.padding = (before, kernel - stride - before) * 2
        self.made = nn.Conv2d(channels, out, kernel, stride, groups=groups)
        self.bounded = bounded  # between 0 and 6

    def forward(self, x: Tensor) -> Tensor:
        x = self.made(functional.pad(x, self.padding) if any(self.padding) else x)
        return functional.relu6(x, inplace=True) if self.bounded else x


class _Block(nn.Module):
    """Widen the channels, filter each of them, narrow them again."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inside = expansion * channels
        widen = [_Convolution(channels, inside, 1)] if expansion > 1 else []
        filters = _Convolution(inside, inside, kernel, stride, groups=inside)
        self.steps = nn.Sequential(*widen, filters, _Convolution(inside, out, 1, bounded=False))
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.steps(x)
        return made + x if self.adds else made


class EfficientNetLite0(nn.Module):
    """Pictures of shape (n, 3, 224, 224) → their features, (n, 1280): the mean over positions of the last channels."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_Convolution(3, _STEM, 3, 2)]
        channels = _STEM
        for repeats, kernel, stride, expansion, out in (*_STAGES, _LAST_STAGE):
            for place in range(repeats):
                layers.append(_Block(channels, out, kernel, 1 if place else stride, expansion))
                channels = out
        self.layers = nn.Sequential(*layers, _Convolution(channels, _HEAD, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features."""
        made: Tensor = self.layers(x)
        return made.mean(dim=(2, 3))

    def take(self, stored: dict[str, Tensor]) -> None:
        """Fill in the stored weights: of each convolution its kernel, then its normalisation, in the order of use."""
        tensors = [value for name, value in stored.items() if "num_batches" not in name and not name.startswith("_fc")]
        convolutions = [part for part in self.modules() if isinstance(part, nn.Conv2d)]
        for place, convolution in enumerate(convolutions):
            kernel, gain, shift, mean, variance = tensors[5 * place : 5 * place + 5]
            factor = gain / torch.sqrt(variance + _EPSILON)
            convolution.load_state_dict({"weight": kernel * factor[:, None, None, None], "bias": shift - mean * factor})


def load_network(path: Path) -> EfficientNetLite0:
    """Return the trained network; loading the file runs no code."""
    network = EfficientNetLite0().eval().requires_grad_(False)
    network.take(torch.load(path, map_location="cpu", weights_only=True))
    return network

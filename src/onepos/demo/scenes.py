"""The demo's pictures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.datasets import make_digit_scenes


@dataclass(frozen=True)
class Scenes:
    """Pictures to train on and to choose epochs on (same scans), and to test on (other scans)."""

    train: Any
    validation: Any
    test: Any
    label_names: list[str]
    images: NDArray[np.float32]


def make_scenes(n_train: int, n_validation: int, n_test: int, data_seed: int, test_seed: int) -> Scenes:
    """Draw the pictures; test pictures share no scan with the others."""
    seen = make_digit_scenes(n_train + n_validation, random_state=data_seed, scans="train")
    unseen = make_digit_scenes(n_test, random_state=test_seed, scans="test")
    return Scenes(
        (seen.X[:n_train], seen.Y[:n_train]),
        (seen.X[n_train:], seen.Y[n_train:]),
        (unseen.X, unseen.Y),
        list(seen.label_names),
        seen.images[:n_train],
    )

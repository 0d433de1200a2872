"""What SMILE recovered of the labels that training never saw."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.demo.scenes import Scenes
from onepos.report import Example
from onepos.report.example import PRESENT, top_labels

N_EXAMPLES = 12
N_GUESSES = 3


def find_examples(scenes: Scenes, observed: NDArray[np.uint8], soft: NDArray[np.float32]) -> tuple[Example, ...]:
    """Take the first pictures as they come: a choice could flatter."""
    names = scenes.label_names
    return tuple(
        Example(
            scenes.images[row],
            names[int(observed[row].argmax())],
            top_labels(soft[row], observed[row], names, N_GUESSES),
            tuple(name for name, present in zip(names, scenes.train[1][row], strict=True) if present),
        )
        for row in range(min(N_EXAMPLES, len(observed)))
    )


def count_recovered(Y: NDArray[np.uint8], observed: NDArray[np.uint8], soft: NDArray[np.float32]) -> dict[str, Any]:
    """Count what was hidden and what came back of it, over the whole training set."""
    unknown = observed == 0
    hidden = unknown & (Y == 1)
    claimed = unknown & (soft >= PRESENT)
    some = hidden.any(axis=1)
    first = np.where(unknown, soft, -np.inf).argmax(axis=1)
    return {
        "hidden": int(hidden.sum()),
        "claimed": int(claimed.sum()),
        "found": int((hidden & claimed).sum()),
        # Among pictures that hide a label: is the likeliest unobserved label one of them, and would a blind guess be?
        "first_guess": float(hidden[np.flatnonzero(some), first[some]].mean()) if some.any() else 0.0,
        "first_guess_blind": float((hidden.sum(axis=1) / unknown.sum(axis=1))[some].mean()) if some.any() else 0.0,
    }

"""What a fit costs, by its sizes: seconds of an epoch, bytes of memory, bytes on the network.

Each cost is a sum of a few counts (steps, multiplications, entries …) times a price. The counts follow from the sizes,
the prices are fitted to measurements (``bench_scale``), all of them at least 0: no cost gets smaller with size.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import work
from numpy.typing import NDArray
from scipy.optimize import nnls

#: Widths of SMILE's parts as the classifier has them by default.
ENCODER, LATENT, DECODER = 128, 8, 32


@dataclass(frozen=True)
class Sizes:
    """Rows n, features q, labels c, neighbours k, rows in a batch, units of the hidden layer."""

    n: int
    q: int
    c: int
    k: int = 10
    batch: int = 1024
    hidden: int = 128

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.n // self.batch)

    def __str__(self) -> str:
        wide = f", hidden {self.hidden}" if self.hidden != 128 else ""
        return f"n={self.n}, q={self.q}, c={self.c}, k={self.k}, batch {self.batch}{wide}"


def parameters(method: str, sizes: Sizes) -> int:
    """Number of trained weights and biases."""
    q, c = sizes.q, sizes.c
    stacks = [[q, sizes.hidden, c]]
    if method == "SMILE":
        stacks += [
            [q, ENCODER, 2 * c],
            [q + c, DECODER, 2 * LATENT],
            [c, DECODER, c],
            [c + LATENT, DECODER, q],
        ]
    return sum((n_in + 1) * n_out for stack in stacks for n_in, n_out in pairwise(stack))


def operations(method: str, sizes: Sizes) -> float:
    """Floating-point operations of the matrix products of an epoch."""
    if method == "AN":
        return work.assume_negative(sizes.n, sizes.q, sizes.c, sizes.hidden)
    widths = {"encoder_hidden": ENCODER, "latent_size": LATENT, "decoder_hidden": DECODER}
    return work.smile(sizes.n, sizes.q, sizes.c, sizes.hidden, k=sizes.k, batch=sizes.batch, **widths)


def time_counts(method: str, sizes: Sizes) -> dict[str, float]:
    """What an epoch consists of."""
    counts: dict[str, float] = {
        "steps": sizes.steps,
        "operations": operations(method, sizes),
        "label entries": sizes.n * sizes.c,
        "features fetched": sizes.n * sizes.q * (1 if method == "AN" else 2 + sizes.k),
        "weights updated": sizes.steps * parameters(method, sizes),
    }
    if method == "SMILE":
        # Which rows of the batch are neighbours of which: every neighbour is looked up, and every pair has a loss.
        counts |= {"links looked up": sizes.n * sizes.k, "links": sizes.n * sizes.batch}
    return counts


def share_of_time(method: str, sizes: Sizes, processes: int) -> dict[str, float]:
    """What an epoch consists of for one of several processes that share every batch.

    Every process takes every step. Links are those between the rows of its portion.
    """
    exponent = {"steps": 0, "weights updated": 0, "links": 2}
    return {name: value / processes ** exponent.get(name, 1) for name, value in time_counts(method, sizes).items()}


def memory_counts(method: str, sizes: Sizes) -> dict[str, float]:
    """What is held while a model is fitted; "process" stands for interpreter and libraries."""
    counts = {"process": 1.0, "features": sizes.n * sizes.q, "label entries": sizes.n * sizes.c}
    return counts if method == "AN" else {**counts, "neighbours": sizes.n * sizes.k}


def messages(method: str, sizes: Sizes) -> int:
    """Float32 numbers of a step that are added up over processes: gradients, and the value of each loss."""
    return parameters(method, sizes) + (1 if method == "AN" else 2)


def traffic(method: str, sizes: Sizes, processes: int) -> float:
    """Bytes that each process sends in a step: a ring passes a sum on 2 (P − 1)/P times."""
    return 4.0 * 2 * messages(method, sizes) * (processes - 1) / processes


@dataclass(frozen=True)
class Prices:
    """Price of each count."""

    by_count: dict[str, float] = field(default_factory=dict)

    def predict(self, counts: dict[str, float]) -> float:
        """Return the cost of these counts."""
        return sum(self.by_count[name] * value for name, value in counts.items())


def fit_prices(counts: list[dict[str, float]], measured: list[float]) -> Prices:
    """Fit prices so that the sum of squared relative errors is least: a small size counts as much as a large one."""
    names = list(counts[0])
    raw = np.array([[row[name] for name in names] for row in counts])
    table: NDArray[np.float64] = raw / np.array(measured)[:, None]
    # Counts differ by ten orders of magnitude; the solver works on columns of one size.
    scale = np.abs(table).max(axis=0)
    solution, _ = nnls(table / scale, np.ones(len(measured)))
    return Prices(dict(zip(names, (solution / scale).tolist(), strict=True)))

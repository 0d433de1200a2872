"""One training example as a reader sees it: what was observed, what was recovered, what is true."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

#: At and above this confidence a label is said to be present; below it is only a guess.
PRESENT = 0.5

Status = Literal["observed", "right", "wrong", "missed"]

#: The signs that go with the colours, so that nobody depends on the colours.
SIGNS: dict[Status, str] = {"observed": "●", "right": "✓", "wrong": "✗", "missed": "○"}


@dataclass(frozen=True)
class Mark:
    """A label of an example and what became of it; ``confidence`` is None where none was asked for."""

    label: str
    status: Status
    confidence: float | None = None

    @property
    def sign(self) -> str:
        """The sign that stands for the status."""
        return SIGNS[self.status]

    @property
    def present(self) -> bool:
        """Whether the method says that the label is there, and not only that it may be."""
        return self.confidence is None or self.confidence >= PRESENT


@dataclass(frozen=True)
class Example:
    """A training example of which one label was observed and others were recovered.

    Attributes
    ----------
    image : array of shape (height, width), 0 to 1
    observed : str
        The label that training saw.
    recovered : tuple of (str, float)
        The labels beside it that the method finds most likely, with its confidence, best first.
    true : tuple of str
        All labels of the example; training never saw them.
    """

    image: NDArray[np.floating]
    observed: str
    recovered: tuple[tuple[str, float], ...]
    true: tuple[str, ...]

    @property
    def guesses(self) -> list[Mark]:
        """The recovered labels, right or wrong."""
        return [Mark(name, "right" if name in self.true else "wrong", share) for name, share in self.recovered]

    @property
    def truth(self) -> list[Mark]:
        """The true labels: observed, among the guesses, or missed by them."""
        named = {name for name, _ in self.recovered}
        return [
            Mark(name, "observed" if name == self.observed else "right" if name in named else "missed")
            for name in self.true
        ]


def top_labels(
    confidence: NDArray[np.floating], observed: NDArray[np.integer], names: list[str], n_labels: int
) -> tuple[tuple[str, float], ...]:
    """Return the most likely labels of a row beside the observed ones, best first.

    Parameters
    ----------
    confidence, observed : arrays of shape (n_labels,)
        A row of ``soft_labels_`` and of the labels that training saw.
    names : list of str
    n_labels : int
        How many to return.
    """
    order = np.argsort(-np.where(observed > 0, -np.inf, confidence), kind="stable")
    hidden = [int(column) for column in order if not observed[column] > 0]
    return tuple((names[column], float(confidence[column])) for column in hidden[:n_labels])

"""How ``auto`` spends its time: what each candidate of round one is allowed, what it can do in that time."""

import time
import timeit
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from onepos.methods.auto.candidates import Candidate, Shape
from onepos.methods.logistic import MOST_LOGITS
from onepos.training import Callback, Objective

#: Share of the time for round one, and share up to which candidates of the second choice are tried in it.
_FIRST_ROUND, _AMPLE = 0.75, 0.25
#: Share of the time for round one if it only takes a sample of the rows.
_FIRST_ROUND_ON_SAMPLE = 0.4
#: What every pool is compared with: tried whatever the budget is, for so many seconds if it is used up.
BASELINES, _LEAST_SECONDS = ("frequency", "logistic"), 2.0
#: Share of the time that a candidate may take in round one, where that is less than half of what is left of the round.
_MOST_ALLOWED = {"logistic": 0.15}
#: Share of the time up to which a fold of a candidate without weight is worth a comparison.
_CHEAP = 0.03
#: A network is left alone if the time allows fewer epochs than this.
_FEWEST_EPOCHS = 3
_MOST_LANDMARKS = 2000
#: Most rows × labels of kinds that hold a matrix of this size, or several, in memory.
_MOST_ENTRIES = {"logistic": MOST_LOGITS, "forest": 50_000_000, "kernel": 50_000_000, "smile": 50_000_000}
#: Rows of the matrix whose decomposition tells how fast the machine is at the moment.
_PROBE = 500


class Budget(NamedTuple):
    """Moments of ``time.monotonic()`` between which the search runs, and products per second of the machine."""

    started: float
    end: float
    speed: float
    first_round: float = _FIRST_ROUND

    @classmethod
    def until(cls, end: float, *, growing: bool = False) -> "Budget":
        """Begin now; measure the machine if there is a limit. Growth leaves less to round one."""
        started = time.monotonic()
        speed = 1.0 if np.isinf(end) else products_per_second()
        return cls(started, end, speed, _FIRST_ROUND_ON_SAMPLE if growing else _FIRST_ROUND)

    @property
    def length(self) -> float:
        """Seconds in all."""
        return self.end - self.started

    def allowance(self, key: str, latest: float, *, place: int, ample: bool) -> float | None:
        """When a candidate of round one must end; None if it is too late to begin.

        ``latest`` is when trainings of folds must end. With ``ample`` the candidate is one to try if time is ample. The
        first one and the baselines are always tried.
        """
        now = time.monotonic()
        share = min(2 * _AMPLE, self.first_round) if ample else self.first_round
        finish = min(self.started + share * self.length, latest)
        least = _LEAST_SECONDS if key in BASELINES else 0.0
        if place and least == 0.0 and now >= finish - (_AMPLE * self.length if ample else 0.0):
            return None
        return now + max(least, min(0.5 * (finish - now), _MOST_ALLOWED.get(key, 1.0) * self.length))

    def is_cheap(self, key: str, seconds: float) -> bool:
        """Whether a fold costs little and gives something to compare with."""
        return key in BASELINES and seconds <= _CHEAP * self.length


def products_per_second() -> float:
    """Measure the speed of the machine, as busy as it is, with small eigendecompositions; the quickest counts."""
    matrix = np.random.default_rng(0).normal(size=(_PROBE, _PROBE)).astype(np.float32)
    matrix += matrix.T
    return 8 * _PROBE**3 / min(timeit.repeat(lambda: np.linalg.eigh(matrix), number=1, repeat=3))


def affordable(candidate: Candidate, shape: Shape, seconds: float, speed: float) -> Candidate | None:
    """Return the candidate, smaller if necessary; None if it would take too long, or too much memory."""
    if shape.n_rows * shape.n_labels > _MOST_ENTRIES.get(candidate.key, np.inf):
        return None
    if candidate.key == "kernel":
        landmarks = landmarks_for(shape, seconds, speed)
        return Candidate("kernel", {**candidate.settings, "n_landmarks": landmarks}) if landmarks else None
    # A third of the time is enough for the nearest neighbours of all rows.
    graph_seconds = shape.n_rows**2 * min(shape.n_features, 500) / speed
    return None if candidate.key == "smile" and graph_seconds > seconds / 3 else candidate


def landmarks_for(shape: Shape, seconds: float, speed: float) -> int:
    """Most rows that a kernel can compare with in some seconds, at ``speed`` products per second; 0 if hardly any."""
    n = shape.n_rows
    # Landmarks are stored (m × q), and the training needs some matrices of n × m numbers.
    m = min(_MOST_LANDMARKS, n, max(1, 8_000_000 // shape.n_features), max(1, 100_000_000 // n))
    while m >= 200:
        width = 2 * 11 * min(n, 1000) ** 3  # some widths are tried on a thousand rows, as long as there is time
        products = width + 3 * n * m * m + 8 * m**3 + n * m * (shape.n_features + 9 * shape.n_labels)
        if products <= seconds * speed:
            return m
        m = int(m / 1.5)
    return m if m == n else 0


class TooSlow(Exception):
    """The time allows too few epochs."""


class Pace(Callback):
    """Gives a network up if a taste of its first epoch says that the time is too short for it."""

    def __init__(self, end: float) -> None:
        self.started, self.end, self.known = time.monotonic(), end, False

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        """Begin to measure."""
        self.started = time.monotonic()

    def on_batch_end(self, done: int, total: int) -> None:
        """Judge after half a second and four batches."""
        now = time.monotonic()
        if self.known or now - self.started < 0.5 or done < 4:
            return
        self.known = True
        if (now - self.started) / done * total * _FEWEST_EPOCHS > self.end - self.started:
            raise TooSlow

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """An epoch is known."""
        self.known = True

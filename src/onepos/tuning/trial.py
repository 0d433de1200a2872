"""One trial: fit a setting on the training part of each split, score it on the rest."""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from onepos import metrics
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._neural import NeuralClassifier
from onepos.selection import higher_is_better
from onepos.training import Callback, Objective
from onepos.tuning.budget import Budget
from onepos.tuning.splits import Split

#: Told the epoch and its score in the first split; True ends the trial.
Report = Callable[[int, float], bool]


@dataclass(frozen=True)
class Part:
    """All rows, which of them to score on, the labels of those as an indicator, and if they are complete.

    With a validation set of the user's own, ``given``, there is no split.
    """

    X: Any
    Y: Any
    truth: NDArray[np.int8]
    full: bool
    split: Split | None = None
    given: tuple[Any, Any] | None = None

    def rows(self) -> tuple[Any, Any, tuple[Any, Any]]:
        """X and Y to fit on, and the pair to score on; made when needed, as five copies of X may be too many."""
        if self.split is None:
            assert self.given is not None
            return self.X, self.Y, self.given
        train, held = self.split
        rows = _safe_indexing(self.X, train), _safe_indexing(self.Y, train)
        return *rows, (_safe_indexing(self.X, held), _safe_indexing(self.Y, held))


@dataclass
class Outcome:
    """How a trial ended."""

    state: str
    score: float = math.nan
    epochs: int | None = None
    seconds: float = 0.0
    error: Exception | None = None
    interrupted: bool = False
    curve: dict[int, float] = field(default_factory=dict)


class _Watch(Callback):
    """Listens to the epochs of one fit; ends it when the setting is hopeless or time is up."""

    def __init__(self, report: Report | None, budget: Budget) -> None:
        self.report, self.budget = report, budget
        self.curve: dict[int, float] = {}
        self.ended = ""

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> bool:
        """Note the score and say whether to go on."""
        column = next(name for name in record if name.startswith("valid_"))
        sign = 1.0 if higher_is_better(column.removeprefix("valid_")) else -1.0
        epoch, score = int(record["epoch"]), sign * record[column]
        self.curve[epoch] = score
        if self.report is not None and self.report(epoch, score):
            self.ended = "pruned"
        elif self.budget.spent:
            self.ended = "stopped"
        return bool(self.ended)


def run_trial(make: Callable[[], Any], parts: list[Part], report: Report | None, budget: Budget) -> Outcome:
    """Fit and score a setting; an error is an outcome too, not the end of the search."""
    started = time.monotonic()
    try:
        # Whatever is wrong with the labels is said once, by the last fit.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelWarning)
            warnings.simplefilter("ignore", TrainingWarning)
            outcome = _run_parts(make, parts, report, budget)
    except KeyboardInterrupt:
        outcome = Outcome("stopped", interrupted=True)
    except Exception as error:  # any setting may break any method in any way
        outcome = Outcome("failed", error=error)
    outcome.seconds = time.monotonic() - started
    return outcome


def _run_parts(make: Callable[[], Any], parts: list[Part], report: Report | None, budget: Budget) -> Outcome:
    scores, epochs = [], []
    curve: dict[int, float] = {}
    for position, part in enumerate(parts):
        model = make()
        X, Y, held = part.rows()
        kind = "full" if part.full else "single"
        if isinstance(model, NeuralClassifier):
            watch = _Watch(report if position == 0 else None, budget)
            model.fit(X, Y, validation=held, validation_labels=kind, callbacks=[watch])
            if position == 0:
                curve = watch.curve
            facts = model.history_.facts
            if facts["stopped"] == "interrupted":
                return Outcome("stopped", curve=curve, interrupted=True)
            if watch.ended:
                return Outcome(watch.ended, curve=curve)
            if facts["stopped"] == "diverged" and not facts["best_epoch"]:
                raise ValueError("the loss stopped being finite in the first epoch")
            epochs.append(facts["best_epoch"])
        elif part.given is not None:
            model.fit(X, Y, validation=held, validation_labels=kind)
        else:
            # Several strengths to choose from are chosen from within the training part, as the last fit will do.
            model.fit(X, Y)
        scores.append(score_rows(model, held[0], part.truth))
        if position + 1 < len(parts) and budget.spent:
            return Outcome("stopped", curve=curve)
    score = float(np.average(scores, weights=[len(part.truth) for part in parts]))
    if not math.isfinite(score):
        raise ValueError(f"the score is {score}")
    # The start may be the best; the last fit takes one epoch all the same.
    n_epochs = max(1, round(float(np.mean(epochs)))) if epochs else None
    return Outcome("complete", score, n_epochs, curve=curve)


def score_rows(model: Any, X: Any, truth: NDArray[np.int8]) -> float:
    """Average precision; where a row has one positive, the mean reciprocal rank of it."""
    scores = np.asarray(model.decision_function(X))
    if scores.ndim == 1:  # two classes: the difference of their logits
        scores = np.column_stack([-scores, scores])
    return metrics.average_precision(truth, scores)

"""The search: the defaults first, then what optuna suggests, as long as there are trials and time."""

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from onepos import metrics
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._base import hold_out
from onepos.methods._neural import NeuralClassifier
from onepos.training import Callback, Objective
from onepos.training.epoch_choice import higher_is_better
from onepos.tuning.spaces import Space

#: With fewer labelled rows each is held out once, in FOLDS parts: a fifth of them alone would compare settings by luck.
SMALL = 2000
FOLDS = 5
#: Share held out above that: at least 400 rows.
FRACTION = 0.2


class Split(NamedTuple):
    """Row numbers to fit on and to score on."""

    train: NDArray[np.intp]
    held: NDArray[np.intp]


def split_rows(observed: NDArray[np.int8], labelled: NDArray[np.intp], generator: np.random.Generator) -> list[Split]:
    """Return one split, or five where there are fewer than 2,000 labelled rows.

    One row of each label is never held out, so that no label is unseen in training; rows without a label are always in
    training.
    """
    everything = np.arange(len(observed))
    if len(labelled) >= SMALL:
        parts = [hold_out(observed, labelled, FRACTION, generator)[1]]
    else:
        shuffled = generator.permutation(labelled)
        _, first = np.unique(observed[shuffled].argmax(axis=1), return_index=True)
        spare = np.delete(shuffled, first)
        if len(spare) == 0:
            raise ValueError(
                f"no row can be held out to compare settings: {len(labelled)} rows for {len(first)} observed labels. "
                "Pass validation=(X_val, Y_val)."
            )
        parts = [np.sort(part) for part in np.array_split(spare, min(FOLDS, len(spare)))]
    return [Split(np.setdiff1d(everything, part, assume_unique=True), part) for part in parts]


class Budget:
    """A number of seconds from now on, or no limit; ``reserve`` of them are kept for the fit on all rows."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self.reserve = 0.0
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def spent(self) -> bool:
        """Whether nothing more should be started."""
        return self.elapsed + self.reserve >= self.seconds


#: Takes the epoch and its score in the first split; True ends the trial.
Report = Callable[[int, float], bool]


@dataclass(frozen=True)
class Part:
    """All rows, the labels of those to score on as an indicator, and whether these labels are complete.

    Rows to score on are those held out by ``split``, or the validation set that the user has ``given``.
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
        train, held = ((_safe_indexing(self.X, rows), _safe_indexing(self.Y, rows)) for rows in self.split)
        return *train, held


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
        # The last fit warns about the labels, once.
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
        found = np.asarray(model.decision_function(held[0]))
        if found.ndim == 1:  # two classes: the difference of their logits
            found = np.column_stack([-found, found])
        # Where a row has one positive, this is the mean reciprocal rank of it.
        scores.append(metrics.average_precision(part.truth, found))
        if position + 1 < len(parts) and budget.spent:
            return Outcome("stopped", curve=curve)
    score = float(np.average(scores, weights=[len(part.truth) for part in parts]))
    if not math.isfinite(score):
        raise ValueError(f"the score is {score}")
    # The start may be the best; the last fit takes one epoch all the same.
    n_epochs = max(1, round(float(np.mean(epochs)))) if epochs else None
    return Outcome("complete", score, n_epochs, curve=curve)


class Bar:
    """A bar on standard error, for ``progress``; without a terminal, one line per step."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self.label = label
        self._out = stream or sys.stderr
        self._live = self._out.isatty()

    def __call__(self, step: str, share: float) -> None:
        """Show the step and the share of the search that is done."""
        filled = round(24 * share)
        line = f"{self.label} {'█' * filled}{'░' * (24 - filled)} {step}"
        end = "\n" if share >= 1.0 or not self._live else ""
        self._out.write((f"\r\x1b[2K{line}" if self._live else line) + end)
        self._out.flush()


#: Trials and epochs that go by before a trial may be ended for being worse than the median of those before it.
TRIALS_BEFORE_PRUNING = 5
EPOCHS_BEFORE_PRUNING = 5


class Search:
    """Runs trials, copies of ``base`` with other parameters, one after the other; ``stopped`` says what ended it."""

    def __init__(self, optuna: Any, base: Any, space: Space, parts: list[Part], budget: Budget, seed: int) -> None:
        self.optuna, self.base, self.space, self.parts, self.budget = optuna, base, space, parts, budget
        self.settings: list[dict[str, Any]] = []
        self.outcomes: list[Outcome] = []
        self.stopped = "n_trials"
        with _silent(optuna):
            self.study = optuna.create_study(
                direction="maximize",
                sampler=optuna.samplers.TPESampler(seed=seed),
                pruner=optuna.pruners.MedianPruner(
                    n_startup_trials=TRIALS_BEFORE_PRUNING, n_warmup_steps=EPOCHS_BEFORE_PRUNING
                ),
            )

    @property
    def best(self) -> tuple[int, float] | None:
        """Number and score of the best trial; of equal ones the first, so the defaults win a draw."""
        finished = [(-o.score, number) for number, o in enumerate(self.outcomes) if o.state == "complete"]
        return (min(finished)[1], -min(finished)[0]) if finished else None

    def run(self, n_trials: int, progress: Callable[[str, float], None]) -> None:
        """Run until trials or time are used up, or the user interrupts; ``progress`` takes a step and a share."""
        try:
            with _silent(self.optuna):
                self._loop(n_trials, progress)
        except KeyboardInterrupt:  # between two fits
            if not self.outcomes:
                raise
            del self.settings[len(self.outcomes) :]
            self.stopped = "interrupted"
        progress("training with the best settings", 1.0)

    def _loop(self, n_trials: int, progress: Callable[[str, float], None]) -> None:
        best = None
        for number in range(n_trials):
            if number and self.budget.spent:
                self.stopped = "time_budget"
                break
            share = max(number / n_trials, min(1.0, self.budget.elapsed / self.budget.seconds))
            shown = f", best {best[1]:.4f}" if best else ""
            progress(f"tuning, trial {number + 1} of {n_trials}{shown}", share)
            outcome = self._run_suggested() if number else self._run_defaults()
            self.outcomes.append(outcome)
            best = self.best
            if best is not None:
                # A fit on all rows takes somewhat longer than one on the training part.
                self.budget.reserve = 1.25 * self.outcomes[best[0]].seconds / len(self.parts)
            if outcome.state == "stopped":
                self.stopped = "interrupted" if outcome.interrupted else "time_budget"
                break

    def _run_defaults(self) -> Outcome:
        values = self.base.get_params(deep=False)
        self.settings.append({name: values[name] for name in self.space})
        outcome = run_trial(lambda: clone(self.base), self.parts, None, self.budget)
        if outcome.state == "complete":
            # Defaults such as "auto" lie outside their range: optuna then learns from the others alone.
            encoded = {name: self.space[name].encode(values[name]) for name in self.space}
            known = {name: value for name, value in encoded.items() if value is not None}
            self.study.add_trial(
                self.optuna.trial.create_trial(
                    value=outcome.score,
                    params=known,
                    distributions={name: self.space[name].distribution(self.optuna) for name in known},
                    intermediate_values={k: v for k, v in outcome.curve.items() if math.isfinite(v)},
                )
            )
        return outcome

    def _run_suggested(self) -> Outcome:
        trial = self.study.ask({name: dimension.distribution(self.optuna) for name, dimension in self.space.items()})
        setting = {name: dimension.decode(trial.params[name]) for name, dimension in self.space.items()}
        self.settings.append(setting)

        def report(epoch: int, score: float) -> bool:
            trial.report(score, epoch)
            return bool(trial.should_prune())

        outcome = run_trial(lambda: clone(self.base).set_params(**setting), self.parts, report, self.budget)
        state = {"complete": "COMPLETE", "pruned": "PRUNED"}.get(outcome.state, "FAIL")
        score = outcome.score if state == "COMPLETE" else None
        self.study.tell(trial, score, state=self.optuna.trial.TrialState[state])
        return outcome


@contextmanager
def _silent(optuna: Any) -> Iterator[None]:
    """Keep optuna from logging to standard error, and leave its level as it was."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)

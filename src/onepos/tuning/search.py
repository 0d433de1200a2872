"""The search: the defaults first, then what optuna suggests, as long as there are trials and time."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.base import clone

from onepos.tuning.budget import Budget
from onepos.tuning.dimensions import Space
from onepos.tuning.progress import Progress, Steps
from onepos.tuning.trial import Outcome, Part, run_trial

#: Trials and epochs that go by before a trial may be ended for being worse than the median of those before it.
TRIALS_BEFORE_PRUNING = 5
EPOCHS_BEFORE_PRUNING = 5


class Search:
    """Runs trials one after the other and remembers them; ``stopped`` says what ended it.

    Parameters
    ----------
    optuna : module
        Passed in, as it is optional.
    base : estimator
        Unfitted; every trial is a copy of it with other parameters.
    """

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

    def run(self, n_trials: int, progress: Progress | Steps | None) -> None:
        """Run until trials or time are used up, or the user has had enough."""
        try:
            with _silent(self.optuna):
                self._loop(n_trials, progress)
        except KeyboardInterrupt:  # between two fits
            if not self.outcomes:
                raise
            del self.settings[len(self.outcomes) :]
            self.stopped = "interrupted"
        if progress is not None:
            progress.end()

    def _loop(self, n_trials: int, progress: Progress | Steps | None) -> None:
        for number in range(n_trials):
            if number and self.budget.spent:
                self.stopped = "time_budget"
                break
            outcome = self._run_suggested() if number else self._run_defaults()
            self.outcomes.append(outcome)
            best = self.best
            if best is not None:
                # A fit on all rows takes somewhat longer than one on the training part.
                self.budget.reserve = 1.25 * self.outcomes[best[0]].seconds / len(self.parts)
            if progress is not None:
                progress.tell(number + 1, outcome, best)
            if outcome.state == "stopped":
                self.stopped = "interrupted" if outcome.interrupted else "time_budget"
                break

    def _run_defaults(self) -> Outcome:
        values = self.base.get_params(deep=False)
        self.settings.append({name: values[name] for name in self.space})
        outcome = run_trial(lambda: clone(self.base), self.parts, None, self.budget)
        if outcome.state == "complete":
            # Defaults such as "auto" lie outside their range: optuna then learns from the others alone.
            known = {name: self.space[name].encode(values[name]) for name in self.space}
            known = {name: value for name, value in known.items() if value is not None}
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
        states = self.optuna.trial.TrialState
        if outcome.state == "complete":
            self.study.tell(trial, outcome.score)
        else:
            self.study.tell(trial, state=states.PRUNED if outcome.state == "pruned" else states.FAIL)
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

"""Choosing a method's settings without clean labels: the defaults are tried first, then what optuna suggests."""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from onepos import metrics
from onepos._utils.context import progress_to, stage, tell
from onepos._utils.machine import require
from onepos._utils.progress import progress_shown
from onepos._utils.validation import check_labels, check_validation_labels, seed_from
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import make_classifier
from onepos.rows.splits import first_alike, splits
from onepos.rows.stored import on_disk
from onepos.training import Callback, Objective
from onepos.training.loop import higher_is_better
from onepos.tuning.spaces import Range, Space, check_space, default_space, stored, suggest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TuneResult", "default_space", "tune"]

#: A trial is not pruned before so many trials and epochs.
TRIALS_BEFORE_PRUNING = 5
EPOCHS_BEFORE_PRUNING = 5
#: Share of 2,000 labelled rows or more that settings are scored on; fewer are scored on in folds.
SCORED_SHARE = 0.2


@dataclass(frozen=True)
class TuneResult:
    """The best setting found, the model fitted with it, and every trial.

    Attributes
    ----------
    best_estimator : fitted estimator
        It has ``best_params`` and is fitted on all rows.
    best_params : dict
        The parameters that were searched. A neural method tuned on held-out rows also has ``max_epochs`` and
        ``early_stopping=False``, as no rows are left to choose the epoch on.
    best_score : float
        Score of the best trial; NaN if none was finished. The best score is the largest of many, and therefore
        optimistic: judge the model on other rows.
    trials : DataFrame
        One row per trial, the defaults first: parameters, ``score``, ``epochs``, ``seconds``, ``state`` ("complete",
        "pruned", "failed" or "stopped") and, if it failed, ``error``.
    criterion : str
        "mean_reciprocal_rank" of the observed label, or "average_precision" on complete labels.
    stopped : str
        What ended the search: "n_trials", "time_budget" or "interrupted".
    """

    best_estimator: Any
    best_params: dict[str, Any]
    best_score: float
    trials: "pd.DataFrame"
    criterion: str
    stopped: str


def tune(
    method: str | OnePositiveClassifier,
    X: Any,
    Y: Any,
    *,
    n_trials: int = 20,
    time_budget: float | None = None,
    space: dict[str, Range] | None = None,
    validation: tuple[Any, Any] | None = None,
    validation_labels: str = "single",
    random_state: Any = None,
    verbose: int = 0,
) -> TuneResult:
    """Search a method's parameters; no clean labels are needed.

    A setting is fitted on part of the rows. The other rows score it by the mean reciprocal rank of their observed
    label, as early stopping does. With fewer than 2,000 labelled rows this is done in five folds, else on a fifth of
    the rows. The first trial is the estimator as given, so the result is never worse than that by the criterion.
    optuna (extra ``tune``) suggests the other trials. A neural fit ends early if it falls behind the median of earlier
    ones at the same epoch.

    Parameters
    ----------
    method : str or estimator
        A key of ``onepos.list_methods()``, or an unfitted classifier. Parameters that are not searched stay.
    X, Y : as for ``fit``
    n_trials : int
        How many settings to try, the first one included.
    time_budget : float, optional
        Seconds for the search and the last fit. When they run out, neural methods stop after the current epoch and
        others after the current fit. Once a trial is finished, the time of the last fit is set aside.
    space : dict, optional
        What to search, by parameter: ``(low, high)``, whole numbers if both are, ``(low, high, "log")``, or a list of
        values. None for ``default_space(method)``.
    validation : (X_val, Y_val), optional
        Rows to score on instead of part of X.
    validation_labels : {"single", "full"}
        Whether ``Y_val`` shows one positive per row or all of them. With all, the criterion is average precision.
    random_state : int, RandomState, Generator or None
        Seeds the held-out rows, the suggestions and, if it has no seed of its own, the estimator.
    verbose : int
        1 shows progress on standard error; ``onepos.training.progress_to`` gives it to a function instead.

    Examples
    --------
    >>> from onepos.datasets import make_known_posterior
    >>> from onepos.tuning import tune
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> found = tune("logistic", data.X, data.observed, n_trials=3, space={"l2": (1.0, 100.0, "log")}, random_state=0)
    >>> found.criterion, len(found.trials), found.best_estimator.predict_proba(data.X).shape
    ('mean_reciprocal_rank', 3, (200, 4))
    """
    started, optuna = time.monotonic(), require("optuna", extra="tune", purpose="tuning")
    if n_trials < 1:
        raise ValueError(f"n_trials must be at least 1; got {n_trials}.")
    if time_budget is not None and not time_budget > 0:
        raise ValueError(f"time_budget is a number of seconds above 0, or None; got {time_budget}.")
    rows_seed, *seeds = np.random.SeedSequence(seed_from(random_state)).spawn(3)
    search_seed, model_seed = (int(sequence.generate_state(1)[0]) for sequence in seeds)
    if isinstance(method, str):
        method = make_classifier(method)
    if not isinstance(method, OnePositiveClassifier):
        raise ValueError(f"method must be the key of a method or a onepos classifier; got {type(method).__name__}.")
    base: Any = clone(method)
    if base.get_params(deep=False).get("random_state", 0) is None:
        base.set_params(random_state=model_seed)  # trials differ by their settings and not by luck
    searched = check_space(space, base)
    parts = _make_parts(base, X, Y, validation, validation_labels, np.random.default_rng(rows_seed))
    kind = "full" if validation_labels == "full" or (validation is None and base._y_is_full) else "single"
    judge = _Judge(base, parts, kind, validation is not None, started, time_budget or math.inf)
    with progress_shown(type(base).__name__) if verbose else nullcontext(), stage(0.0, 0.9):
        trials, stopped = _search(optuna, judge, searched, n_trials, search_seed)
    if stopped == "interrupted":
        warnings.warn(
            f"tuning was interrupted in trial {len(trials) - 1}; the best setting so far is fitted and returned.",
            TrainingWarning,
            stacklevel=2,
        )
    best = _best(trials)
    if best is None and stopped == "n_trials":
        raise ValueError(f"none of {len(trials)} trials succeeded; the first error: {judge.error}") from judge.error
    params = dict((best or trials[0]).user_attrs["setting"])
    if best is not None and best.user_attrs["epochs"] is not None and validation is None:
        params |= {"early_stopping": False, "max_epochs": best.user_attrs["epochs"]}
    held = {} if validation is None else {"validation": validation, "validation_labels": validation_labels}
    with stage(0.9, 1.0):
        best_estimator = clone(base).set_params(**params).fit(X, Y, **held)
    return TuneResult(
        best_estimator=best_estimator,
        best_params=params,
        best_score=best.value if best else math.nan,
        trials=_frame(trials),
        criterion="average_precision" if kind == "full" else "mean_reciprocal_rank",
        stopped=stopped,
    )


class _TimeUp(BaseException):
    """What is left of the time is needed for the last fit; no error of a trial."""


#: Returns X and Y to fit on, the pair to score on, and its labels as an indicator; called late, as X may be large.
_MakePart = Callable[[], tuple[Any, Any, tuple[Any, Any], NDArray[np.int8]]]


def _make_parts(
    base: Any, X: Any, Y: Any, validation: Any, validation_labels: str, generator: np.random.Generator
) -> list[_MakePart]:
    """Check labels and validation set, and choose the rows to fit on and to score on."""
    if validation_labels not in ("single", "full"):
        raise ValueError(f'validation_labels must be "single" or "full"; got {validation_labels!r}.')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)  # the last fit warns
        labels = check_labels(Y, complete=base._y_is_full)
    if validation is not None:
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X_val, Y_val); got {type(validation).__name__}.")
        truth = check_validation_labels(validation[1], labels.classes)
        return [lambda: (X, Y, validation, truth)]
    if validation_labels == "full":
        raise ValueError('validation_labels="full" needs validation=(X_val, Y_val).')
    if on_disk(X):
        raise ValueError(
            "X is memory-mapped, and holding rows of it out would load it: pass validation=(X_val, Y_val), or "
            "numpy.asarray(X) if it fits into memory."
        )
    # Other sparse formats have no rows to take.
    X, Y = (values.tocsr() if sparse.issparse(values) else values for values in (X, Y))

    def part(train: NDArray[np.intp], held: NDArray[np.intp]) -> Any:
        pair = (_rows_of(X, held), _rows_of(Y, held))
        return _rows_of(X, train), _rows_of(Y, train), pair, labels.observed[held]

    return [partial(part, *pair) for pair in splits(labels.observed, SCORED_SHARE, generator, alike=first_alike(X))]


def _rows_of(values: Any, rows: NDArray[np.intp]) -> Any:
    """Take rows of a frame, a matrix, an array or a list."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[rows] if hasattr(values, "shape") else [values[row] for row in rows]


def _search(optuna: Any, judge: "_Judge", space: Space, n_trials: int, seed: int) -> tuple[list[Any], str]:
    """Try settings until trials or time are used up, or the user interrupts; return them and which of these it was."""
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.MedianPruner(TRIALS_BEFORE_PRUNING, EPOCHS_BEFORE_PRUNING),
    )
    values = judge.base.get_params(deep=False)
    defaults = {name: values[name] for name in space}
    # Defaults such as "auto" lie outside their range: optuna then learns from the other parameters alone.
    known = {name: code for name in defaults if (code := stored(space[name], defaults[name])) is not None}
    study.enqueue_trial(known)

    def attempt(trial: Any) -> float:
        best = _best(study.trials)
        if best:  # a fit on all rows takes somewhat longer than one on the training part
            judge.reserve = 1.25 * best.duration.total_seconds() / len(judge.parts)
        if trial.number:
            judge.check_time()
        shown = f", best {best.value:.4f}" if best else ""
        share = max(trial.number / n_trials, min(1.0, (time.monotonic() - judge.started) / judge.seconds))
        tell(share, f"tuning, trial {trial.number + 1} of {n_trials}{shown}")
        suggested = {name: suggest(space[name], trial, name) for name in (space if trial.number else known)}
        setting = suggested if trial.number else defaults
        trial.set_user_attr("setting", setting)
        with progress_to(None), warnings.catch_warnings():
            # The last fit gives these warnings, once.
            warnings.simplefilter("ignore", LabelWarning)
            warnings.simplefilter("ignore", TrainingWarning)
            try:
                score, epochs = judge.score(setting, trial)
            except Exception as error:
                judge.error = judge.error or error
                trial.set_user_attr("error", f"{type(error).__name__}: {error}")
                raise
        trial.set_user_attr("epochs", epochs)
        return score

    level, stopped = optuna.logging.get_verbosity(), "n_trials"
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        study.optimize(attempt, n_trials, catch=Exception)  # any setting may break any method in any way
    except _TimeUp:
        stopped = "time_budget"
    except KeyboardInterrupt:
        stopped = "interrupted"
    finally:
        optuna.logging.set_verbosity(level)
    trials = [trial for trial in study.trials if "setting" in trial.user_attrs]
    if not trials:
        raise KeyboardInterrupt
    tell(1.0, "training with the best settings")
    return trials, stopped


def _best(trials: list[Any]) -> Any:
    """Return the best finished trial; of equal ones the first, so the defaults win a draw."""
    return max((one for one in trials if one.state.name == "COMPLETE"), key=lambda one: one.value, default=None)


@dataclass(eq=False)
class _Judge:
    """Fits copies of ``base`` with other parameters and scores them, until time is up."""

    base: Any
    parts: list[_MakePart]
    kind: str  # of the labels to score on: "single" or "full"
    given: bool  # the user gave the rows to score on
    started: float
    seconds: float
    reserve: float = 0.0  # seconds to be left for the last fit
    error: Exception | None = None  # the first one

    def check_time(self) -> None:
        if time.monotonic() - self.started + self.reserve >= self.seconds:
            raise _TimeUp

    def score(self, setting: dict[str, Any], trial: Any) -> tuple[float, int | None]:
        """Return the mean score over the parts, and the number of epochs for the last fit of a neural method."""
        scores: list[float] = []
        n_rows, epochs = [], []
        for make_part in self.parts:
            if scores:
                self.check_time()
            X, Y, pair, truth = make_part()
            model = clone(self.base).set_params(**setting)
            if "verbose" in model.get_params(deep=False):
                model.set_params(verbose=0)
            held: dict[str, Any] = {"validation": pair, "validation_labels": self.kind}
            if isinstance(model, NeuralClassifier):
                model.fit(X, Y, **held, callbacks=[_Watch(self, None if scores else trial)])
                facts = model.history_.facts
                if facts["stopped"] == "interrupted":
                    raise KeyboardInterrupt
                if facts["stopped"] == "diverged" and not facts["best_epoch"]:
                    raise ValueError("the loss stopped being finite in the first epoch")
                epochs.append(facts["best_epoch"])
            else:
                # Without a validation set a method chooses its strength within its own rows, as the last fit will do.
                model.fit(X, Y, **(held if self.given else {}))
            logits = np.asarray(model.decision_function(pair[0]))
            if logits.ndim == 1:  # two classes: the difference of their logits
                logits = np.column_stack([-logits, logits])
            # With one positive per row this is the mean of its reciprocal rank.
            scores.append(metrics.average_precision(truth, logits))
            n_rows.append(len(truth))
        score = float(np.average(scores, weights=n_rows))
        if not math.isfinite(score):
            raise ValueError(f"the score is {score}")
        # The start may be the best; the last fit takes one epoch all the same.
        return score, max(1, round(float(np.mean(epochs)))) if epochs else None


class _Watch(Callback):
    """Reports the epochs of a fit to the trial that optuna ``asked`` for, and ends the fit if that is pruned."""

    def __init__(self, judge: _Judge, asked: Any) -> None:
        self.judge, self.asked = judge, asked

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Report the score; higher is better."""
        if self.asked is not None:
            column = next(name for name in record if name.startswith("valid_"))
            sign = 1.0 if higher_is_better(column.removeprefix("valid_")) else -1.0
            self.asked.report(sign * record[column], int(record["epoch"]))
            if self.asked.should_prune():
                from optuna import TrialPruned

                raise TrialPruned
        self.judge.check_time()


def _frame(trials: list[Any]) -> "pd.DataFrame":
    import pandas as pd

    records = []
    for trial in trials:
        noted = trial.user_attrs
        state = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}.get(trial.state.name, "stopped")
        about = {
            "score": trial.value if state == "complete" else math.nan,
            "epochs": noted.get("epochs"),
            "seconds": trial.duration.total_seconds() if trial.duration else math.nan,
            "state": "stopped" if state == "failed" and "error" not in noted else state,  # by Ctrl-C
            "error": noted.get("error") if state == "failed" else None,
        }
        records.append(noted["setting"] | about)
    return pd.DataFrame(records).rename_axis("trial").astype({"epochs": "Int64"})

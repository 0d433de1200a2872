"""``tune``: choose a method's settings from observed labels alone."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from onepos._utils.machine import require
from onepos._utils.validation import Labels, check_labels, check_validation_labels, seed_from
from onepos.exceptions import LabelWarning, TrainingWarning
from onepos.methods._base import OnePositiveClassifier
from onepos.methods._neural import NeuralClassifier
from onepos.methods.registry import make_classifier
from onepos.rows.stored import on_disk
from onepos.tuning.search import Bar, Budget, Part, Search, split_rows
from onepos.tuning.spaces import Dimension, check_space

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TuneResult:
    """The best setting found, the model that it gives, and every trial.

    Attributes
    ----------
    best_estimator : fitted estimator
        Of ``best_params``, fitted on all rows.
    best_params : dict
        The parameters that were searched; for a neural method tuned on held-out rows also ``max_epochs`` and
        ``early_stopping=False``, as the refit has no rows to choose the epoch on.
    best_score : float
        Of the best trial; NaN if none was finished. It was chosen as the largest of many, so it flatters: judge the
        model on other rows.
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
    space: dict[str, Dimension] | None = None,
    validation: tuple[Any, Any] | None = None,
    validation_labels: str = "single",
    random_state: Any = None,
    verbose: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> TuneResult:
    """Search a method's parameters; no clean labels are needed.

    A setting is fitted on part of the rows. On the others it is judged by where it ranks the one label that was
    observed: the mean reciprocal rank, which early stopping goes by too. With fewer than 2,000 labelled rows that is
    done in five folds, else on a fifth of the rows. The first trial is the estimator as given, so the result is never
    worse than that by the criterion; the rest is up to optuna (extra ``tune``). Fits of neural methods that fall behind
    the median of earlier ones at the same epoch are ended early.

    Parameters
    ----------
    method : str or estimator
        A key of ``onepos.list_methods()``, or an unfitted classifier, whose other parameters stay.
    X, Y : as for ``fit``
    n_trials : int
        How many settings to try, the first one included.
    time_budget : float, optional
        Seconds for all of it. Neural methods stop after the epoch in which it runs out, others after the fit.
        The time that the last fit takes is set aside once a trial is finished.
    space : dict of parameter to Uniform, LogUniform, Integer or Choice, optional
        What to search; None for the method's own in ``onepos.tuning.spaces``.
    validation : (X_val, Y_val), optional
        Rows to judge on instead of part of X.
    validation_labels : {"single", "full"}
        Whether ``Y_val`` shows one positive per row or all of them; with all, the criterion is average precision.
    random_state : int, RandomState, Generator or None
        Seeds which rows are held out, the suggestions and, if it has no seed of its own, the estimator.
    verbose : int
        1 shows a progress bar on standard error.
    progress : callable, optional
        Instead of that bar: called with (step, share of the search done).

    Examples
    --------
    >>> from onepos.datasets import make_known_posterior
    >>> from onepos.tuning import LogUniform, tune
    >>> data = make_known_posterior(200, 5, 4, random_state=0)
    >>> found = tune("linear", data.X, data.observed, n_trials=3, space={"l2": LogUniform(1, 100)}, random_state=0)
    >>> found.criterion, len(found.trials), found.best_estimator.predict_proba(data.X).shape
    ('mean_reciprocal_rank', 3, (200, 4))
    """
    optuna = require("optuna", extra="tune", purpose="tuning")
    if n_trials < 1:
        raise ValueError(f"n_trials must be at least 1; got {n_trials}.")
    if time_budget is not None and not time_budget > 0:
        raise ValueError(f"time_budget is a number of seconds above 0, or None; got {time_budget}.")
    budget = Budget(time_budget)
    rows_seed, search_seed, model_seed = np.random.SeedSequence(seed_from(random_state)).spawn(3)
    base = _prepare_estimator(method, model_seed)
    searched = check_space(space, base)
    parts = _make_parts(base, X, Y, validation, validation_labels, np.random.default_rng(rows_seed))
    quiet = clone(base).set_params(verbose=0) if "verbose" in base.get_params(deep=False) else base
    search = Search(optuna, quiet, searched, parts, budget, _as_integer(search_seed))
    if progress is None and verbose:
        progress = Bar(type(base).__name__)
    search.run(n_trials, progress or (lambda step, share: None))
    if search.stopped == "interrupted":
        warnings.warn(
            f"tuning was interrupted in trial {len(search.outcomes) - 1}; the best setting so far is fitted and "
            "returned.",
            TrainingWarning,
            stacklevel=2,
        )
    params = _best_params(search, base)
    model = clone(base).set_params(**params)
    if validation is None:
        model.fit(X, Y)
    else:
        model.fit(X, Y, validation=validation, validation_labels=validation_labels)
    return TuneResult(
        best_estimator=model,
        best_params=params,
        best_score=search.best[1] if search.best else math.nan,
        trials=_frame(search),
        criterion="average_precision" if parts[0].full else "mean_reciprocal_rank",
        stopped=search.stopped,
    )


def _best_params(search: Search, base: Any) -> dict[str, Any]:
    """Parameters of the best trial; those of the defaults if none was finished."""
    best = search.best
    if best is None and search.stopped == "n_trials":
        first = next(outcome.error for outcome in search.outcomes if outcome.error is not None)
        raise ValueError(f"none of {len(search.outcomes)} trials succeeded; the first error: {first}") from first
    number = 0 if best is None else best[0]
    params, epochs = dict(search.settings[number]), search.outcomes[number].epochs
    if epochs is None or search.parts[0].given is not None or not isinstance(base, NeuralClassifier):
        return params
    params["early_stopping"] = False
    # A learning rate that falls to zero is meant to get there; otherwise the best epoch is where to stop.
    if params.get("learning_rate_decay", base.learning_rate_decay) == "none":
        params["max_epochs"] = epochs
    return params


def _frame(search: Search) -> Any:
    import pandas as pd

    columns = ("score", "epochs", "seconds", "state")
    records = [
        setting
        | {name: getattr(outcome, name) for name in columns}
        | {"error": outcome.error and f"{type(outcome.error).__name__}: {outcome.error}"}
        for setting, outcome in zip(search.settings, search.outcomes, strict=True)
    ]
    return pd.DataFrame(records).rename_axis("trial").astype({"epochs": "Int64"})


def _prepare_estimator(method: Any, seed: np.random.SeedSequence) -> Any:
    """Return the estimator to copy, with a seed, so that trials differ by their settings and not by luck."""
    if isinstance(method, str):
        method = make_classifier(method)
    if not isinstance(method, OnePositiveClassifier):
        raise ValueError(f"give the key of a method or a onepos classifier to tune; got {type(method).__name__}.")
    base = clone(method)
    if base.get_params(deep=False).get("random_state", 0) is None:
        base.set_params(random_state=_as_integer(seed))
    return base


def _as_integer(sequence: np.random.SeedSequence) -> int:
    """Return a seed of 32 bits, which everybody takes."""
    return int(sequence.generate_state(1)[0])


def _make_parts(
    base: Any, X: Any, Y: Any, validation: Any, validation_labels: str, generator: np.random.Generator
) -> list[Part]:
    """Check labels and validation set and say on which rows settings are fitted and compared."""
    if validation_labels not in ("single", "full"):
        raise ValueError(f'validation_labels must be "single" or "full"; got {validation_labels!r}.')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)  # the last fit says it
        labels: Labels = check_labels(Y, complete=base._y_is_full)
    if validation is not None:
        if not isinstance(validation, tuple) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X_val, Y_val); got {type(validation).__name__}.")
        truth = check_validation_labels(validation[1], labels.classes)
        return [Part(X, Y, truth, validation_labels == "full", given=validation)]
    if validation_labels == "full":
        raise ValueError('validation_labels="full" needs validation=(X_val, Y_val).')
    if on_disk(X):
        raise ValueError(
            "X is memory-mapped, and holding rows of it out would load it: pass validation=(X_val, Y_val), or "
            "numpy.asarray(X) if it fits into memory."
        )
    # Other sparse formats have no rows to take.
    X, Y = (values.tocsr() if sparse.issparse(values) else values for values in (X, Y))
    splits = split_rows(labels.observed, np.flatnonzero(labels.labelled), generator)
    return [Part(X, Y, labels.observed[split.held], base._y_is_full, split) for split in splits]

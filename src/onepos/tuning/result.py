"""What tuning returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
        One row a trial, the defaults first: the parameters, ``score``, ``epochs``, ``seconds``, ``state`` ("complete",
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

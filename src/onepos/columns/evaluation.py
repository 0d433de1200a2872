"""Measure a model on a labelled table, as far as its labels allow."""

from collections.abc import Sequence
from dataclasses import dataclass

from onepos.columns._formats import TableData
from onepos.columns._truth import Truth, find_truth
from onepos.columns.encoder import Tally
from onepos.columns.scores import bootstrap_intervals, complete_values, set_scores, single_positive_values
from onepos.columns.table_model import TableModel
from onepos.thresholds import label_sets


@dataclass(frozen=True)
class Evaluation:
    """Measures with their intervals, and what they rest on.

    Attributes
    ----------
    complete_labels : bool
        True: the five measures of ``onepos.metrics``. False: only how high the one known tag is ranked.
    rows, rows_with_label : int
    measures : dict
        Name → mean, low and high end of the 95 % interval.
    sets : dict
        ``mean_size`` of the sets that the model suggests and, with complete labels, ``true_mean_size`` and precision,
        recall and F1, micro and macro.
    notes : list of str
    """

    complete_labels: bool
    rows: int
    rows_with_label: int
    measures: dict[str, dict[str, float]]
    sets: dict[str, float]
    notes: list[str]


def evaluate_table(
    model: TableModel,
    data: TableData,
    *,
    label: str | None = None,
    separator: str | None = None,
    labels: Sequence[str] = (),
    threshold: float | None = None,
) -> Evaluation:
    """Measure a model, with 95 % bootstrap intervals over rows.

    Parameters
    ----------
    model : TableModel
    data : TableData
    label : str, optional
        The column of tags: one per row, or with ``separator`` all of the row's, joined by it.
    separator : str, optional
    labels : sequence of str
        Instead: the 0/1 columns, one for each label of the model, complete.
    threshold : float
        From which probability on a label is in the set; the model's by default.
    """
    truth, complete, notes = find_truth(model, data, Truth(label, separator, labels))
    tally = Tally()
    scores = model.predict_proba(data.frame, tally).to_numpy()
    limit = model.thresholds_ if threshold is None else threshold
    filled = model.at_least_one_ and threshold is None
    sets = set_scores(label_sets(scores, limit, at_least_one=filled), truth if complete else None)
    values = (
        complete_values(truth, scores, limit, at_least_one=filled)
        if complete
        else single_positive_values(truth, scores)
    )
    counted = int((truth > 0).any(axis=1).sum())
    notes = [*notes, *tally.notes(model.encoder_.kinds_)]
    return Evaluation(complete, len(truth), counted, bootstrap_intervals(values), sets, notes)

"""Measure a model on a labelled table, as far as its labels allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.context import other_warnings
from onepos._utils.validation import shorten
from onepos.exceptions import DataFileError
from onepos.label_sets.thresholds import label_sets
from onepos.metrics import METRICS, macro_auc, macro_average_precision, row_values, single_positive_values
from onepos.table.files import TableData
from onepos.table.kinds import Tally, require_columns
from onepos.table.model import TableModel
from onepos.table.tags import holds_lists, indicator_columns, split_tags


class KnownLabels(NamedTuple):
    """A 0/1 table with the model's labels as columns, whether it is complete, and what the user should know."""

    table: pd.DataFrame
    complete: bool
    notes: list[str]

    def check_complete(self) -> None:
        """Raise DataFileError unless all labels of every row are known."""
        if not self.complete:
            raise DataFileError(
                "rows of which every label is known are needed: with one tag per row all probabilities would become "
                "too low. Say what joins the tags of a cell (separator), or name the 0/1 columns (labels)."
            )


def known_labels(
    model: TableModel,
    data: TableData,
    *,
    label: str | None = None,
    separator: str | None = None,
    labels: Sequence[str] = (),
) -> KnownLabels:
    """Return the labels of a table in the model's order.

    ``label`` is a column of tags, and ``separator`` joins those of a row, which are then complete. Without it a cell is
    read as in training, and may not hold all labels of its row. Cells that are lists hold all. Or ``labels`` are the
    0/1 columns, one for each label of the model, complete.
    """
    if label and labels:
        raise DataFileError("name the column of tags (label) or the 0/1 columns (labels), not both.")
    if separator and not label:
        raise DataFileError("a separator says how the tags of the label column are joined: name that column too.")
    if label:
        require_columns(data.frame, [label], "label")
        table = split_tags(data.frame[label], separator or model.separator_)
        complete = bool(separator) or holds_lists(data.frame[label])
    elif labels:
        table, complete = indicator_columns(data.frame, labels), True
        missing = [name for name in model.labels_ if name not in table.columns]
        if missing:
            raise DataFileError(f"labels must name every label of the model; not named: {shorten(missing, 5)}.")
    else:
        raise DataFileError(
            f"say where the labels are: a column of tags (label) or the 0/1 columns (labels). The columns are: "
            f"{shorten(data.frame.columns)}."
        )
    unknown, known = [str(name) for name in table.columns if name not in model.labels_], set(model.labels_)
    truth = table.reindex(columns=model.labels_, fill_value=0)
    if not (truth > 0).any(axis=None):
        raise DataFileError(
            f"no row has a label of the model ({shorten(model.labels_)}); the data have {shorten(table.columns)}."
        )
    notes = [f"labels that the model does not know are not counted: {shorten(unknown, 5)}"] if unknown else []
    for sign in ";,|":
        if any(sign in name and {tag.strip() for tag in name.split(sign)} <= known for name in unknown):
            notes.append(f"some of these look like sets of known labels, joined by {sign!r}: name it as the separator")
            break
    return KnownLabels(truth, complete, notes)


@dataclass(frozen=True)
class Evaluation:
    """Measures with their intervals, and the rows and labels behind them.

    ``measures`` has mean, low and high end of the 95 % interval by name: the five of ``onepos.metrics`` if
    ``complete_labels``, else only how high the one known tag is ranked. ``sets`` has the ``mean_size`` of the sets that
    the model suggests and, with complete labels, ``true_mean_size`` and precision, recall and F1, micro and macro.
    ``over_labels`` then has ``macro_average_precision`` and ``macro_auc``: how well rows are ranked by a label.
    """

    complete_labels: bool
    rows: int
    rows_with_label: int
    measures: dict[str, dict[str, float]]
    sets: dict[str, float]
    over_labels: dict[str, float]
    notes: list[str]


def evaluate_table(
    model: TableModel, data: TableData, known: KnownLabels, *, threshold: float | None = None
) -> Evaluation:
    """Measure a model on the known labels of a table, with 95 % bootstrap intervals over rows.

    From the probability ``threshold`` on a label is in the set; the model's by default.
    """
    if not known.table.index.equals(data.frame.index):
        raise ValueError("data and known labels have different indices: they must be of the same rows, in one order.")
    truth, tally = known.table.to_numpy(), Tally()
    scores = model.predict_proba(data.frame, tally).to_numpy()
    limit = model.thresholds_ if threshold is None else threshold
    filled = model.at_least_one_ and threshold is None
    sets = set_scores(label_sets(scores, limit, at_least_one=filled), truth if known.complete else None)
    over_labels = {}
    if known.complete:
        values = complete_values(truth, scores, limit, at_least_one=filled)
        over_labels["macro_average_precision"] = macro_average_precision(truth, scores)
        over_labels["macro_auc"] = macro_auc(truth, scores)
    else:
        values = single_positive_values(truth, scores)
    counted, notes = int((truth > 0).any(axis=1).sum()), [*known.notes, *tally.notes()]
    return Evaluation(known.complete, len(truth), counted, bootstrap_intervals(values), sets, over_labels, notes)


def complete_values(
    truth: NDArray[Any], scores: NDArray[Any], threshold: float | Sequence[float] = 0.5, *, at_least_one: bool = False
) -> dict[str, NDArray[np.float64]]:
    """Return the five measures of ``onepos.metrics`` for every row; NaN where a row does not count."""
    positive, scores = np.asarray(truth) > 0, np.asarray(scores, dtype=np.float64)
    values = row_values(positive, scores, tuple(name for name in METRICS if name != "hamming_loss"))
    values["hamming_loss"] = (label_sets(scores, threshold, at_least_one=at_least_one) != positive).mean(axis=1)
    return values


def set_scores(sets: NDArray[Any], truth: NDArray[Any] | None) -> dict[str, float]:
    """Return the mean size of label sets and, with complete labels, precision, recall and F1, micro and macro."""
    from sklearn.metrics import precision_recall_fscore_support

    chosen = np.asarray(sets) > 0
    averages = {"mean_size": float(chosen.sum(axis=1).mean())}
    if truth is None:
        return averages
    positive = np.asarray(truth) > 0
    used = positive.any(axis=0) | chosen.any(axis=0)
    averages["true_mean_size"] = float(positive.sum(axis=1).mean())
    for average in ("micro", "macro"):
        scores = precision_recall_fscore_support(positive[:, used], chosen[:, used], average=average, zero_division=0.0)
        for name, score in zip(("precision", "recall", "f1"), scores[:3], strict=True):
            averages[f"{average}_{name}"] = float(score)
    return averages


def bootstrap_intervals(
    values: dict[str, NDArray[np.float64]], *, n_resamples: int = 1000, random_state: int = 0
) -> dict[str, dict[str, float]]:
    """Return mean and 95 % percentile interval of each measure from the same resampled rows; NaN does not count."""
    table = np.column_stack(list(values.values()))
    counted = ~np.isnan(table)
    filled = np.where(counted, table, 0.0)
    generator = np.random.default_rng(random_state)
    means = np.empty((n_resamples, table.shape[1]))
    for k in range(n_resamples):
        weight = np.bincount(generator.integers(0, len(table), len(table)), minlength=len(table)).astype(np.float64)
        with np.errstate(invalid="ignore"):  # a resample may lack every row that counts in a measure
            means[k] = (weight @ filled) / (weight @ counted)
    with other_warnings("ignore", RuntimeWarning):  # a measure in which no row counts is NaN
        ends = np.vstack([np.nanmean(table, axis=0), np.nanpercentile(means, (2.5, 97.5), axis=0)])
    return {
        name: dict(zip(("mean", "low", "high"), map(float, column), strict=True))
        for name, column in zip(values, ends.T, strict=True)
    }

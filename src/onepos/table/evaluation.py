"""Measure a model on a labelled table, as far as its labels allow; calibrate it on complete labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.messages import shorten
from onepos.exceptions import DataFileError
from onepos.label_sets.thresholds import label_sets
from onepos.metrics import METRICS, row_values
from onepos.table.files import TableData
from onepos.table.held_out import single_positive_values
from onepos.table.kinds import Tally, require_columns
from onepos.table.model import TableModel
from onepos.table.tags import holds_lists, indicator_columns, split_tags


class Truth(NamedTuple):
    """Where the labels are: a column of tags, with ``separator`` of complete sets, or the complete 0/1 columns.

    Without ``separator`` a cell is read as in training, and may not hold all labels of its row. Cells that are lists
    hold all.
    """

    label: str | None = None
    separator: str | None = None
    labels: Sequence[str] = ()


class KnownLabels(NamedTuple):
    """An indicator with the model's labels as columns, whether it is complete, and what the user should know."""

    truth: NDArray[Any]
    complete: bool
    notes: list[str]


def find_truth(model: TableModel, data: TableData, where: Truth) -> KnownLabels:
    """Return the labels of a table in the model's order."""
    label, separator, labels = where
    if label and labels:
        raise DataFileError("name the column of tags (label) or the 0/1 columns (labels), not both.")
    if separator and not label:
        raise DataFileError("a separator says how the tags of the label column are joined: name that column too.")
    if label:
        require_columns(data.frame, [label], "label")
        indicator = split_tags(data.frame[label], separator or model.separator_)
    elif labels:
        indicator = indicator_columns(data.frame, labels)
    else:
        raise DataFileError(
            f"say where the labels are: a column of tags (label) or the 0/1 columns (labels). The columns are: "
            f"{shorten(data.frame.columns)}."
        )
    missing = [name for name in model.labels_ if name not in indicator.columns]
    if labels and missing:
        raise DataFileError(f"labels must name every label of the model; not named: {shorten(missing, 5)}.")
    truth = indicator.reindex(columns=model.labels_, fill_value=0).to_numpy(dtype=np.int8)
    if not (truth > 0).any():
        raise DataFileError(
            f"no row has a label of the model ({shorten(model.labels_)}); the data have {shorten(indicator.columns)}."
        )
    complete = bool(separator or labels or holds_lists(data.frame[label]))
    unknown, known = [str(name) for name in indicator.columns if name not in model.labels_], set(model.labels_)
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

    ``label`` is the column of tags: one per row, or with ``separator`` all of the row's, joined by it. Or ``labels``
    are the 0/1 columns, one for each label of the model, complete. From the probability ``threshold`` on a label is in
    the set; the model's by default.
    """
    truth, complete, notes = find_truth(model, data, Truth(label, separator, labels))
    tally = Tally()
    scores = model.predict_proba(data.frame, tally).to_numpy()
    limit = model.thresholds_ if threshold is None else threshold
    filled = model.at_least_one_ and threshold is None
    sets = set_scores(label_sets(scores, limit, at_least_one=filled), truth if complete else None)
    if complete:
        values = complete_values(truth, scores, limit, at_least_one=filled)
    else:
        values = single_positive_values(truth, scores)
    counted = int((truth > 0).any(axis=1).sum())
    return Evaluation(complete, len(truth), counted, bootstrap_intervals(values), sets, [*notes, *tally.notes()])


def calibrate_table(
    model: TableModel,
    data: TableData,
    *,
    label: str | None = None,
    separator: str | None = None,
    labels: Sequence[str] = (),
    sets: Literal["sample", "half"] = "sample",
) -> list[str]:
    """Calibrate a model in place on rows whose labels are all known; returns what the user should know.

    Parameters as for ``evaluate_table`` and the classifiers' ``calibrate``; a column of tags needs a separator.
    """
    sample = complete_sample(model, data, Truth(label, separator, labels))
    model.calibrate(data.frame, pd.DataFrame(sample.truth, columns=model.labels_), sets=sets)
    return sample.notes


def complete_sample(model: TableModel, data: TableData, where: Truth) -> KnownLabels:
    """Return the labels of rows whose labels are all known; DataFileError if they do not look so."""
    if where.label and not where.separator:
        raise DataFileError("calibration needs complete sets of tags: say what joins them (separator).")
    sample = find_truth(model, data, where)
    if not sample.complete:
        raise DataFileError(
            "every row of the sample has one label, so it does not look like complete labels: calibrating on it would "
            "make all probabilities too low. Give rows of which every label is known."
        )
    return sample


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
    intervals = {}
    for j, name in enumerate(values):
        drawn = means[~np.isnan(means[:, j]), j]
        interval = [np.nan] * 3
        if drawn.size:
            interval = [table[counted[:, j], j].mean(), *np.percentile(drawn, (2.5, 97.5))]
        intervals[name] = dict(zip(("mean", "low", "high"), map(float, interval), strict=True))
    return intervals

"""What a table's tags are worth, told by a sample of rows with complete labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from onepos.exceptions import DataFileError
from onepos.label_sets.calibration import out_of_fold
from onepos.label_sets.choice import even_choice_p_value, even_shares, rate_intervals
from onepos.label_sets.thresholds import cardinality_threshold, label_sets
from onepos.metrics import row_values
from onepos.table.evaluation import KnownLabels
from onepos.table.files import TableData
from onepos.table.model import TableModel

#: Tags are called chosen if even choice would show such a difference in fewer than this share of samples.
LEVEL = 0.01
FEWEST_ROWS = 20
_RESAMPLES = 2000
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class SampleCheck:
    """What a sample says of the tags that a model was trained on.

    ``labels`` has a record per label: ``tagged``, its share of the tags; ``even``, the share of the tags that it would
    have if each row's tag were drawn evenly from its labels; ``true``, the share of rows that have it, with the ``low``
    and ``high`` end of the 95 % interval. ``p_value`` is that of the test of even choice, ``biased`` whether it is
    below ``LEVEL``. ``labels_per_row`` and each measure of ``before`` and ``after`` the correction, and the
    ``difference`` of both, have ``mean``, ``low`` and ``high``.
    """

    rows: int
    labels: list[dict[str, Any]]
    p_value: float
    biased: bool
    labels_per_row: dict[str, float]
    before: dict[str, dict[str, float]]
    after: dict[str, dict[str, float]]
    difference: dict[str, dict[str, float]]
    notes: list[str]


def check_sample(model: TableModel, data: TableData, sample: KnownLabels) -> SampleCheck:
    """Compare a model's tags with complete labels, and measure what ``calibrate`` would change.

    No row is measured by a correction that has seen it: the rows are dealt into ten folds. A correction that the model
    has already is left out of account.
    """
    sample.check_complete()
    truth = sample.table.to_numpy() > 0
    if len(truth) < FEWEST_ROWS:
        raise DataFileError(f"the sample has {len(truth)} rows, and measuring takes {FEWEST_ROWS}: label more rows.")
    estimator = model.estimator_
    features = estimator._check_features(model.encoder_.transform(data.frame))
    ranking = np.asarray(estimator._ranking(features), dtype=np.float64)
    before = expit(estimator._level(ranking))
    if hasattr(estimator, "calibration_"):
        size = min(estimator.n_positives_, truth.shape[1])
        cut: Any = cardinality_threshold(before, size, at_least_one=model.at_least_one_)
    else:
        cut = model.thresholds_
    after = expit(out_of_fold(ranking, truth))
    size = estimator.n_positives or float(truth.sum(axis=1).mean())
    sets = _sets(model, after, cardinality_threshold(after, size, at_least_one=model.at_least_one_))
    counts = np.array([model.facts_["counts"][name] for name in model.labels_], dtype=np.float64)
    rates, even, p_value = rate_intervals(truth), even_shares(truth), even_choice_p_value(counts, truth)
    columns = zip(model.labels_, counts / counts.sum(), even, truth.mean(axis=0), *rates.T, strict=True)
    records = [dict(zip(("label", "tagged", "even", "true", "low", "high"), row, strict=True)) for row in columns]
    parts = [_parts(truth, before, _sets(model, before, cut)), _parts(truth, after, sets)]
    (now, corrected, change), per_row = _intervals(truth, *parts)
    notes = sample.notes
    if (truth.sum(axis=1) <= 1).all():
        notes = [*notes, "no row has more than one label: if these are observed tags, they say nothing here"]
    return SampleCheck(len(truth), records, p_value, p_value < LEVEL, per_row, now, corrected, change, notes)


def _sets(model: TableModel, probabilities: Numbers, cut: Any) -> NDArray[np.int64]:
    return label_sets(probabilities, cut, at_least_one=model.at_least_one_)


def _parts(truth: NDArray[np.bool_], probabilities: Numbers, sets: NDArray[np.int64]) -> Numbers:
    """Return per row: average precision, whether it counts, right labels in the set, size of the set."""
    precision = row_values(truth, probabilities, ("average_precision",))["average_precision"]
    counts = ~np.isnan(precision)
    right = (sets * truth).sum(axis=1)
    return np.column_stack([np.where(counts, precision, 0.0), counts, right, sets.sum(axis=1)]).astype(np.float64)


def _measures(parts: Numbers, n_true: Numbers) -> dict[str, Numbers]:
    """Return measures of sums over rows; the last axis of ``parts`` is that of ``_parts``."""
    precision, counted, right, chosen = np.moveaxis(parts, -1, 0)
    return {
        "average_precision": precision / np.maximum(counted, 1e-12),
        "precision": right / np.maximum(chosen, 1e-12),
        "recall": right / np.maximum(n_true, 1e-12),
        "f1": 2.0 * right / np.maximum(chosen + n_true, 1e-12),
    }


def _intervals(
    truth: NDArray[np.bool_], before: Numbers, after: Numbers
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return the measures before, after, and their differences, and labels per row, each with a 95 % interval."""
    n_rows, n_true = len(truth), truth.sum(axis=1).astype(np.float64)
    drawn = np.random.default_rng(0).multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), _RESAMPLES)
    weights = np.vstack([np.ones(n_rows), drawn])  # first the sample itself
    first, second = (_measures(weights @ parts, weights @ n_true) for parts in (before, after))
    change = {name: second[name] - first[name] for name in first}
    all_measures = [{name: _interval(values) for name, values in one.items()} for one in (first, second, change)]
    return all_measures, _interval(weights @ n_true / n_rows)


def _interval(values: Numbers) -> dict[str, float]:
    low, high = np.percentile(values[1:], (2.5, 97.5))
    return {"mean": float(values[0]), "low": float(low), "high": float(high)}

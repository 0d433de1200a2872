"""What a sample says of a model's tags: measured by rows that the correction has not seen, on tags with known bias."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from onepos import metrics
from onepos.exceptions import DataFileError
from onepos.table import TableModel, evaluate_table, known_labels
from onepos.table.files import TableData
from onepos.table.sample import _intervals, _measures, _parts, check_sample

LABELS = list("abcdefgh")


def by_columns(model, frame):
    """The arguments of functions that compare a model with complete labels."""
    return model, TableData(frame), known_labels(model, TableData(frame), labels=LABELS)


def rows(seed, n, log_e=0.0):
    """A table with one tag per row, chosen in proportion to e, and all labels as 0/1 columns."""
    fixed, random = np.random.default_rng(0), np.random.default_rng(seed)
    X, W = random.normal(size=(n, 3)), fixed.normal(size=(3, 8))
    Y = random.random((n, 8)) < expit(1.5 * X @ W - 1.0)
    Y[~Y.any(axis=1), 0] = True
    noise = random.gumbel(size=Y.shape) + log_e * fixed.normal(size=8)
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    frame["tag"] = np.array(LABELS)[np.where(Y, noise, -np.inf).argmax(axis=1)]
    return frame, pd.concat([frame.drop(columns="tag"), pd.DataFrame(Y.astype(int), columns=LABELS)], axis=1)


def fitted(log_e):
    return TableModel(method="logistic", params={"l2": 1.0}).fit(rows(1, 1500, log_e)[0], label="tag")


def test_chosen_tags_are_told_and_the_gain_of_the_correction_is_that_on_new_rows():
    model, (_, sample), (_, rest) = fitted(2.0), rows(2, 100), rows(3, 3000)
    found = check_sample(*by_columns(model, sample))
    assert found.biased
    assert found.rows == 100
    assert found.labels_per_row["low"] < rest[LABELS].to_numpy().sum(axis=1).mean() < found.labels_per_row["high"]
    before = evaluate_table(*by_columns(model, rest)).measures["average_precision"]["mean"]
    model.calibrate(sample, sample[LABELS])
    after = evaluate_table(*by_columns(model, rest)).measures["average_precision"]["mean"]
    assert after > before + 0.03
    for group, value in ((found.before, before), (found.after, after), (found.difference, after - before)):
        measure = group["average_precision"]
        assert measure["low"] < measure["mean"] < measure["high"]
        assert measure["low"] - 0.02 < value < measure["high"] + 0.02
    # A correction that the model has is left out of account.
    again = check_sample(*by_columns(model, sample))
    assert again.before["average_precision"] == found.before["average_precision"]
    assert again.after["average_precision"] == found.after["average_precision"]


def test_the_measures_are_those_of_the_metrics_module():
    model, (_, sample) = fitted(0.0), rows(4, 60)
    found, truth = check_sample(*by_columns(model, sample)), sample[LABELS].to_numpy()
    expected = metrics.average_precision(truth, model.predict_proba(sample).to_numpy())
    assert found.before["average_precision"]["mean"] == pytest.approx(expected)
    sets = model.predict(sample).to_numpy()
    assert found.before["precision"]["mean"] == pytest.approx((sets * truth).sum() / sets.sum())
    assert found.before["recall"]["mean"] == pytest.approx((sets * truth).sum() / truth.sum())
    assert not found.biased
    record = found.labels[0]
    assert record["true"] == pytest.approx(truth[:, 0].mean())
    assert record["tagged"] == pytest.approx((rows(1, 1500, 0.0)[0]["tag"] == "a").mean())


def test_single_tags_and_few_rows_are_refused():
    model, (frame, _) = fitted(0.0), rows(5, 60)
    with pytest.raises(DataFileError, match="separator"):
        check_sample(model, TableData(frame), known_labels(model, TableData(frame), label="tag"))
    few = rows(2, 19)[1]
    with pytest.raises(DataFileError, match="19 rows, and measuring takes 20"):
        check_sample(*by_columns(model, few))


def test_intervals_cover_as_often_as_they_say():
    """Samples of fifty rows against all rows: each measure, and the number of labels per row."""
    random = np.random.default_rng(0)
    eta = random.normal(-1, 1.2, (6000, 8))
    truth, scores = random.random(eta.shape) < expit(eta), expit(eta + random.normal(size=eta.shape))
    parts = _parts(truth, scores, (scores > 0.4).astype(np.int64))
    everything = _measures(parts.sum(axis=0), truth.sum())
    covered = []
    for _ in range(200):
        rows_of_sample = random.choice(6000, 50, replace=False)
        (found, _, change), per_row = _intervals(truth[rows_of_sample], *[parts[rows_of_sample]] * 2)
        covered.append([found[name]["low"] <= value <= found[name]["high"] for name, value in everything.items()])
        covered[-1].append(per_row["low"] <= truth.sum(axis=1).mean() <= per_row["high"])
        assert change["f1"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert (np.mean(covered, axis=0) > 0.89).all()
    assert 0.91 < np.mean(covered) < 0.98

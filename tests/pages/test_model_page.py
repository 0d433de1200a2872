"""The page about a model: its numbers against scikit-learn and the metrics, its text escaped, its intervals honest."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, f1_score

import onepos
from model_page_data import LABELS, NASTY, nasty_model, nasty_texts
from onepos.doctor import diagnose
from onepos.exceptions import LabelWarning, MissingDependencyError
from onepos.metrics import METRICS, evaluate
from onepos.pages import model_report
from onepos.pages.figures import model_figures, reliability
from onepos.pages.model_page import Scored, advice, in_words, summarise_model
from onepos.table.evaluation import bootstrap_intervals, complete_values


@pytest.fixture(scope="module")
def nasty():
    return nasty_model()


def summary_of(model, X, Y, *, complete=False, measured=None, **more):
    return summarise_model(Scored(model, X, Y, complete=complete, measured=measured), **more)


def test_measures_are_those_of_the_metrics_with_an_interval_around_them(nasty):
    model, data, _ = nasty
    rows = np.arange(160, 240)
    found = summary_of(model, data.X, data.Y, complete=True, measured=rows)
    expected = evaluate(data.Y[rows], model.predict_proba(data.X[rows]))
    expected["hamming_loss"] = np.mean(model.predict(data.X[rows]) != data.Y[rows])  # of the sets, not cut at ½
    assert [measure["key"] for measure in found["measures"]] == list(METRICS)
    for measure in found["measures"]:
        assert measure["mean"] == pytest.approx(expected[measure["key"]])
        assert measure["low"] <= measure["mean"] <= measure["high"]
    assert found["facts"]["measured"] == 80


def test_intervals_hold_the_true_mean_about_as_often_as_they_say():
    """95 % of intervals should; 80 samples of 80 rows, whose mean over all rows is known."""
    random = np.random.default_rng(0)
    scores = random.random((20_000, 5))
    truth = random.random(scores.shape) < scores
    values = complete_values(truth, scores)
    hits = dict.fromkeys(METRICS, 0)
    for trial in range(80):
        rows = random.choice(len(scores), 80)
        part = {name: value[rows] for name, value in values.items()}
        found = bootstrap_intervals(part, n_resamples=120, random_state=trial)
        for name in METRICS:
            hits[name] += found[name]["low"] <= np.nanmean(values[name]) <= found[name]["high"]
    # 76 of 80 are expected, with a standard deviation of 2; percentiles of few rows are a little narrow.
    assert all(67 <= count <= 80 for count in hits.values()), hits


def test_labels_against_scikit_learn(nasty):
    model, data, _ = nasty
    model.choose_thresholds(data.X, n_positives=2.0)
    found = summary_of(model, data.X, data.Y, complete=True)["labels"]
    p, sets = model.predict_proba(data.X), model.predict(data.X)
    assert [label["name"] for label in found] == LABELS
    for j, label in enumerate(found):
        assert label["average_precision"] == pytest.approx(average_precision_score(data.Y[:, j], p[:, j]))
        assert label["f1"] == pytest.approx(f1_score(data.Y[:, j], sets[:, j]))
        assert label["known"] == data.Y[:, j].sum()
        assert label["probability"] == pytest.approx(p[:, j].mean())
        assert label["threshold"] == model.thresholds_[j]
        assert label["in_sets"] == sets[:, j].sum()


def test_with_observed_labels_nothing_is_said_that_they_cannot_tell(nasty):
    model, data, observed = nasty
    found = summary_of(model, data.X, observed)
    assert found["measures"][0]["key"] == "reciprocal_rank"
    assert {label["average_precision"] for label in found["labels"]} == {None}
    drawings = model_figures(model, model.predict_proba(data.X), None)
    assert [name for name, drawing in drawings.items() if drawing] == ["history"]


def test_completions_are_the_surest_labels_that_were_not_given_three_per_label(nasty):
    model, data, observed = nasty
    ids = [f"id{number}" for number in range(240)]
    found = summary_of(model, data.X, observed, ids=ids)["completions"]
    p = model.predict_proba(data.X)
    hidden = np.where(data.observed > 0, -1, p)
    by_label = [np.sort(hidden.max(axis=1)[hidden.argmax(axis=1) == j])[::-1][:3] for j in range(len(LABELS))]
    assert [entry["probability"] for entry in found] == sorted(np.concatenate(by_label))[::-1]
    row = int(hidden.max(axis=1).argmax())
    assert found[0]["row"] == f"id{row}"
    assert found[0]["label"] == LABELS[hidden[row].argmax()]
    assert found[0]["known"] == [LABELS[data.observed[row].argmax()]]


@pytest.mark.parametrize(
    ("size", "expected", "true", "asked", "words"),
    [
        (2.0, 2.2, None, None, None),
        (1.0, 2.5, None, None, "1.00 labels per row, fewer than the 2.50 that the probabilities add up to"),
        (3.0, 2.0, None, None, "more than the 2.00"),
        (2.0, 9.9, 2.1, None, None),  # with complete labels, the truth counts
        (2.0, 2.0, 3.0, 1.5, "fewer than the 3.00 that are true. Unless this is intended, fit with n_positives=3 "),
        (2.1, 2.5, 2.51, 2.5, None),  # asked for already: the sets are smaller on purpose
    ],
)
def test_advice_where_set_size_and_expectation_disagree(size, expected, true, asked, words):
    found = advice(size, expected, true, asked)
    assert (found is None) if words is None else (words in found)


def test_advice_is_on_the_page(nasty, tmp_path):
    model, data, _ = nasty
    model.choose_thresholds(data.X, n_positives=1.0)
    path = model_report(model, data.X, data.Y, tmp_path / "m.html", complete=True)
    assert 'id="advice"' in path.read_text(encoding="utf-8")


def test_a_reliability_line_is_the_share_of_present_labels_in_each_tenth():
    p, truth = np.array([[0.05, 0.07, 0.95, 0.55]]), np.array([[0, 1, 1, 1]])
    line = reliability(p, truth).axes[0].lines[1]
    assert np.allclose(line.get_xdata(), [0.06, 0.55, 0.95])
    assert np.allclose(line.get_ydata(), [0.5, 1.0, 1.0])


def test_reliability_of_a_calibrated_model_is_near_the_diagonal(nasty):
    _, data, observed = nasty
    raw = onepos.make_classifier("an", early_stopping=False, random_state=0).fit(data.X, observed)
    before = raw.predict_proba(data.X)
    raw.calibrate(data.X, data.Y)
    # One label a row was observed of two: before, labels are present more often than the model says (last bins: few).
    line = reliability(before, data.Y).axes[0].lines[1]
    assert (line.get_ydata()[:6] > line.get_xdata()[:6] + 0.05).all()
    figure, caption = model_figures(raw, raw.predict_proba(data.X), data.Y)["reliability"]
    after = figure.axes[0].lines[1]
    assert np.abs(after.get_ydata()[:6] - after.get_xdata()[:6]).mean() < 0.1
    assert caption.startswith("Share of true labels")


@pytest.mark.parametrize("complete", [True, False])
def test_every_text_is_escaped_and_everything_is_inside(nasty, tmp_path, complete):
    model, data, observed = nasty
    diagnosis = None if complete else diagnose(data.X, observed)
    path = model_report(
        model, data.X, data.Y if complete else observed, tmp_path / "deep" / "model.html",
        complete=complete, texts=nasty_texts(240), ids=[NASTY] * 240, diagnosis=diagnosis, title=f"Model {NASTY}",
    )  # fmt: skip
    page = path.read_text(encoding="utf-8")
    assert NASTY not in page
    assert "<img" not in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert "Content-Security-Policy" in page
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", page)
    assert "label-rare" not in page or not complete


def test_bad_input(nasty, tmp_path, monkeypatch):
    model, data, observed = nasty
    with pytest.raises(ValueError, match="same number of rows"):
        model_report(model, data.X, observed[:10], tmp_path / "m.html")
    with pytest.raises(ValueError, match="not fitted"):
        model_report(onepos.SMILEClassifier(), data.X, observed, tmp_path / "m.html")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r"onepos\[plot\]"):
        model_report(model, data.X, observed, tmp_path / "m.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["logistic", "frequency"])
def test_models_without_epochs_have_a_page_too(nasty, tmp_path, key):
    _, data, observed = nasty
    params = {"logistic": {"l2": 1.0}}.get(key, {})
    model = onepos.make_classifier(key, **params).fit(data.X, observed)
    assert model_report(model, data.X, observed, tmp_path / "m.html").stat().st_size > 5000


def test_one_class_a_row(nasty, tmp_path):
    _, data, _ = nasty
    y = np.array(["red", "green", "blue", "grey"])[data.observed.argmax(axis=1)]
    with pytest.warns(LabelWarning, match="ordinary multi-class"):
        model = onepos.make_classifier("logistic", l2=1.0).fit(data.X, y)
    assert "grey" in model_report(model, data.X, pd.Series(y), tmp_path / "m.html").read_text(encoding="utf-8")


def test_settings_in_words():
    values = 0.123456, (64, 32), {"search": "exact", "recall": 1.0}
    assert [in_words(value) for value in values] == ["0.1235", "64, 32", "search exact, recall 1"]

"""One cell: the choice is made on validation rows, screening does what it says, failures become rows."""

import json
import time
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from onepos._utils import context
from onepos.label_sets.calibration import calibration_bins
from onepos.methods.registry import make_classifier
from onepos.metrics import LABEL_METRICS, METRICS, evaluate
from onepos_studies.study import cells_of, parse_study
from onepos_studies.study.cells import Cell, load_trial, run_together
from onepos_studies.study.execute import run_cell, run_cells

TEXT = """
[study]
name = "cells"
trials = 2
rules = ["clean", "single-positive"]
[[data]]
sets = ["known-posterior"]
fixed = { scale = "standard" }
[common]
max_epochs = 3
batch_size = 64
grid = { learning_rate = [1e-5, 1e-2] }
[record]
test_curve = ["known-posterior"]
soft_label_change = ["known-posterior"]
[[method]]
key = "an"
[[method]]
key = "smile"
[[method]]
key = "bce"
"""
VOLATILE = ("seconds", "peak_megabytes", "finished")


def cell(method="an", rule="clean", trial=0, text=TEXT):
    found = [c for c in cells_of(parse_study(text)) if (c.method, c.rule, c.trial) == (method, rule, trial)]
    return found[0]


def trial_of(cell):
    return load_trial(cell.dataset, cell.seed, cell.trial, cell.fractions, cell.positive_rule, cell.train_fraction)


def test_row_equals_the_fit_by_hand():
    one = cell()
    row, trial = run_cell(one), trial_of(one)
    assert row["status"] == "ok"
    best = None
    for setting in one.settings:
        model = make_classifier("an", **setting, random_state=0)
        model.fit(trial.X_train, trial.observed, validation=(trial.X_val, trial.Y_val), validation_labels="full")
        score = evaluate(trial.Y_val, model.predict_proba(trial.X_val))["average_precision"]
        if best is None or score > best[0]:
            best = (score, setting, evaluate(trial.Y_test, model.predict_proba(trial.X_test)))
    assert row["validation"] == best[0]
    assert json.loads(row["setting"]) == best[1]
    assert {name: row[name] for name in (*METRICS, *LABEL_METRICS)} == best[2]
    assert len(json.loads(row["tried"])) == 2


def test_seconds_are_processor_time(monkeypatch):
    """A second of waiting does not count."""
    usual = Cell.load_trial
    monkeypatch.setattr(Cell, "load_trial", lambda self: time.sleep(1.0) or usual(self))
    started = time.process_time()
    row = run_cell(cell())
    assert row["status"] == "ok"
    assert 0.0 < row["seconds"] <= time.process_time() - started


def test_the_single_positive_rule_never_sees_clean_labels(monkeypatch):
    one = cell(rule="single-positive")
    trial = trial_of(one)
    spoilt = replace(trial, Y_val=1 - trial.Y_val, Y_train=1 - trial.Y_train)
    usual = run_cell(one)
    monkeypatch.setattr("onepos_studies.study.cells.load_trial", lambda *_: spoilt)
    again = run_cell(one)
    assert usual["validation"] == again["validation"]
    assert usual["average_precision"] == again["average_precision"]


@pytest.mark.parametrize("method", ["an", "smile"])
def test_choices_do_not_depend_on_test_labels(monkeypatch, method):
    one = cell(method)
    usual = run_cell(one)
    spoilt = replace(trial_of(one), Y_test=1 - trial_of(one).Y_test)
    monkeypatch.setattr("onepos_studies.study.cells.load_trial", lambda *_: spoilt)
    again = run_cell(one)
    for name in ("setting", "tried", "validation", "best_epoch"):
        assert usual[name] == again[name]
    assert usual["average_precision"] != again["average_precision"]


def test_full_supervision_is_the_same_ceiling_under_both_rules():
    clean, single = run_cell(cell("bce")), run_cell(cell("bce", "single-positive"))
    assert clean["average_precision"] == single["average_precision"]


@pytest.mark.parametrize("rule", ["clean", "single-positive"])
def test_any_method_can_train_on_complete_labels(rule):
    text = TEXT.replace('key = "bce"', 'key = "forest"\ncomplete = true')
    one = cell("forest-full", rule, text=text)
    trial = trial_of(one)
    model = make_classifier("forest", random_state=one.seed + one.trial)
    model.fit(trial.X_train, trial.Y_train, validation=(trial.X_val, trial.Y_val), validation_labels="full")
    expected = evaluate(trial.Y_test, model.predict_proba(trial.X_test))["average_precision"]
    assert run_cell(one)["average_precision"] == pytest.approx(expected, abs=1e-12)


def test_screening_trains_all_briefly_and_the_best_to_the_end():
    text = TEXT + "[tuning]\nscreen_epochs = 1\nkeep = 1\n"
    row = run_cell(cell(text=text))
    tried = json.loads(row["tried"])
    assert [entry.get("epochs") for entry in tried] == [1, 1, None]
    screened = max(tried[:2], key=lambda entry: entry["validation"])
    assert tried[2]["setting"] == screened["setting"] == json.loads(row["setting"])
    assert json.loads(row["setting"])["learning_rate"] == 1e-2  # 1e-5 learns nothing in an epoch


def test_screening_keeps_some_of_each_value():
    text = TEXT.replace("[1e-5, 1e-2] }", "[1e-5, 1e-2], weight_decay = [1e-4, 1e-2] }")
    text += '[tuning]\nscreen_epochs = 1\nkeep_each = ["learning_rate"]\n'
    row = run_cell(cell(text=text))
    tried = json.loads(row["tried"])
    assert [entry.get("epochs") for entry in tried] == [1, 1, 1, 1, None, None]
    for rate, final in zip((1e-5, 1e-2), tried[4:], strict=True):
        screened = [entry for entry in tried[:4] if entry["setting"]["learning_rate"] == rate]
        assert final["setting"] == max(screened, key=lambda entry: entry["validation"])["setting"]
    assert json.loads(row["setting"]) == max(tried[4:], key=lambda entry: entry["validation"])["setting"]


def test_later_trials_use_what_was_chosen():
    later = cell(trial=1)
    choice = {**later.settings[0], "learning_rate": 0.02}
    row = run_cell(later, choice)
    assert json.loads(row["setting"]) == choice
    assert json.loads(row["tried"]) == []
    assert run_cell(later)["status"] == "failed"
    assert "takes over the choice of trial 0" in run_cell(later)["error"]


def test_what_is_recorded_for_pictures():
    row = run_cell(cell("smile"))
    curve, extra = json.loads(row["curve"]), json.loads(row["extra"])
    assert len(curve["test"]) == len(curve["validation"]) == len(curve["epoch"]) == 3
    assert len(extra["soft_label_change"]) == 2
    assert min(extra["soft_label_change"]) > 0
    if row["best_epoch"] == 3:
        assert curve["test"][-1] == pytest.approx(row["average_precision"], abs=1e-4)
    assert sum(extra["calibration"]["count"]) == row["n_train"] * 7  # eight labels, one of them observed


def test_calibration_counts_by_hand():
    soft = np.array([[0.05, 0.95, 0.91], [0.5, 0.05, 1.0]])
    truth = np.array([[0, 1, 0], [1, 1, 1]])
    observed = np.array([[0, 0, 0], [1, 0, 0]])
    found = calibration_bins(soft, truth, observed)
    assert found["count"] == [2, 3]
    assert found["confidence"] == pytest.approx([0.05, 2.86 / 3])
    assert found["frequency"] == pytest.approx([0.5, 2 / 3])


def test_a_failure_is_a_row_that_says_what_happened(monkeypatch):
    def explode(*_, **__):
        raise RuntimeError("out of luck")

    monkeypatch.setattr("onepos_studies.study.execute.make_classifier", explode)
    row = run_cell(cell())
    assert row["status"] == "failed"
    assert row["error"].startswith("RuntimeError: out of luck (explode, line ")
    assert np.isnan(row["average_precision"])


def test_equal_cells_give_equal_rows():
    rows = [run_cell(cell("smile", "single-positive")) for _ in range(2)]
    first, second = ({k: v for k, v in row.items() if k not in VOLATILE} for row in rows)
    assert first == second


def test_smaller_parts_are_in_larger_ones():
    text = TEXT.replace("[common]", "train_fractions = [0.1, 1.0]\n[common]")
    cells = [c for c in cells_of(parse_study(text)) if (c.method, c.rule, c.trial) == ("an", "clean", 0)]
    small, whole = (trial_of(c) for c in cells)
    assert len(small.X_train) == round(0.1 * len(whole.X_train))
    assert np.array_equal(small.X_train, whole.X_train[: len(small.X_train)])
    assert np.array_equal(small.observed, whole.observed[: len(small.observed)])
    assert np.array_equal(small.X_test, whole.X_test)


def test_cells_that_share_fits_have_the_rows_they_have_alone(monkeypatch):
    """Both rules of a method in one process, with fits remembered, against each cell with an empty memory."""
    methods = ("logistic", "mlml", "frequency", "bce", "an")
    text = TEXT[: TEXT.index("[[method]]")] + "".join(f'[[method]]\nkey = "{key}"\n' for key in methods)
    tasks = run_together([one for one in cells_of(parse_study(text)) if one.trial == 0])
    assert [len(task) for task in tasks] == [2, 2, 2, 2, 1, 1]
    for task in tasks:
        monkeypatch.setattr(context, "_memory", OrderedDict())
        together = run_cells(task, [None] * len(task))
        for one, row in zip(task, together, strict=True):
            monkeypatch.setattr(context, "_memory", OrderedDict())
            alone = run_cell(one)
            assert alone["status"] == "ok"
            frames = [pd.DataFrame([found]).drop(columns=list(VOLATILE)) for found in (row, alone)]
            pd.testing.assert_frame_equal(*frames, check_exact=True)

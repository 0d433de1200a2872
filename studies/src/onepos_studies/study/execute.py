"""Run one cell: try its settings on validation rows, score the chosen model once on test rows."""

import json
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from onepos._utils.context import remember_work
from onepos._utils.machine import versions
from onepos.label_sets.calibration import calibration_bins
from onepos.methods.registry import get_method, make_classifier
from onepos.metrics import LABEL_METRICS, METRICS, average_precision, evaluate, higher_is_better
from onepos.rows.scaling import fit_scaler
from onepos.training import Callback, Objective
from onepos.training.machine import limited_threads
from onepos.training.objective import as_features
from onepos_studies.exceptions import StudyError
from onepos_studies.study.cells import Cell, Trial, matches_paper
from onepos_studies.study.folder import ResultsFolder
from onepos_studies.study.machine import machine, peak_megabytes, reset_peak_memory
from onepos_studies.study.provenance import PROTOCOL, commit, data_version, full_setting, revision_of
from onepos_studies.study.spec import Parameters, accepted_parameters

Row = dict[str, Any]
#: Cells from ``run_together``, and the setting that each takes over, or None for a cell that chooses itself.
Task = tuple[list[Cell], list[Parameters | None]]


class _Fit(NamedTuple):
    setting: Parameters
    model: Any
    validation: float
    watchers: Mapping[str, Any]


def run_noted(task: Task, folder: ResultsFolder) -> list[Row]:
    """In a worker process, leave notes in the folder, if it is within reach, and return the rows of a task."""
    if folder.is_within_reach():
        for cell in task[0]:
            folder.note_start(cell)
    return run_cells(*task)


def run_cells(cells: list[Cell], choices: list[Parameters | None]) -> list[Row]:
    """Return the rows of a task; later cells reuse the fits of earlier ones.

    One thread computes: results do not depend on the machine, and processes side by side do not compete for cores. A
    method that stops by the clock has its usual threads, as its rows depend on the machine anyway.
    """
    rows: list[Row] = []
    with ExitStack() as limits:
        if not any(cell.stops_by_clock for cell in cells):
            limits.enter_context(threadpool_limits(1))
            limits.enter_context(limited_threads(1))
        for cell, choice in zip(cells, choices, strict=True):
            if rows and rows[0]["status"] == "ok" and cell.sees_all_labels:
                # Both rules see complete labels here: the rows differ in the rule only.
                rows.append(rows[0] | {"cell": cell.id, "selection": cell.rule, "seconds": 0.0})
            else:
                rows.append(run_cell(cell, choice))
    return rows


def run_cell(cell: Cell, choice: Parameters | None = None) -> Row:
    """Return the row of a cell; an error gives a row with ``status`` "failed". ``choice`` is a setting taken over."""
    reset_peak_memory()
    # A cell has one thread, whose processor time does not depend on what else the machine does.
    clock = time.perf_counter if cell.stops_by_clock else time.process_time
    started = clock()
    row = _identity(cell)
    try:
        with warnings.catch_warnings(), remember_work():
            warnings.simplefilter("ignore")
            trial = cell.load_trial()
            row["data"] = data_version(cell.source)
            row |= _result(cell, trial, choice)
    except Exception as error:  # recorded: the other cells go on, and a resumed study tries this one again
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.name}, line {where.lineno}"
        row |= {"status": "failed", "error": f"{type(error).__name__}: {error} ({place})"}
    row["seconds"] = clock() - started
    row["peak_megabytes"] = peak_megabytes()
    row["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
    return row


def failed_row(cell: Cell, reason: str) -> Row:
    """Return the row of a cell whose process could not report the failure."""
    row = _identity(cell) | {"status": "failed", "error": reason}
    return row | {"finished": datetime.now(UTC).isoformat(timespec="seconds")}


def _identity(cell: Cell) -> Row:
    return {
        "cell": cell.id,
        "dataset": cell.dataset,
        "features": "paper" if matches_paper(cell.dataset) else "substitute",
        "method": cell.method,
        "key": cell.key,
        "trial": cell.trial,
        "selection": cell.rule,
        "train_fraction": cell.train_fraction,
        "status": "ok",
        "error": None,
        "n_train": 0,
        "setting": "{}",
        "tried": "[]",
        "validation": np.nan,
        "best_epoch": np.nan,
        **dict.fromkeys((*METRICS, *LABEL_METRICS), np.nan),
        "curve": "{}",
        "extra": "{}",
        "seconds": np.nan,
        "peak_megabytes": np.nan,
        "parameters": "{}",
        "revision": revision_of(cell.key),
        "protocol": PROTOCOL,
        "commit": commit(),
        "data": "",
        "versions": json.dumps(versions()),
        "machine": json.dumps(machine()),
        "finished": "",
    }


def _result(cell: Cell, trial: Trial, choice: Parameters | None) -> Row:
    tried: list[dict[str, Any]] = []
    if cell.takes_over is not None and choice is None:
        raise ValueError(f"this cell takes over the choice of trial {cell.takes_over}, which has none.")
    if trial.one_tag and (cell.rule == "clean" or cell.sees_all_labels):
        raise StudyError(
            f"{cell.dataset} has one tag per row, so that complete labels are not known: give its [[data]] rules = "
            '["single-positive"], and leave out full supervision.'
        )
    best = _fit(cell, trial, choice) if choice is not None else _choose(cell, trial, tried)
    history = getattr(best.model, "history_", None)
    facts = history.facts if history is not None else {}
    scores = evaluate(trial.Y_test, best.model.predict_proba(trial.X_test))
    if trial.one_tag:  # the other measures are about the rank of the held-out tag; these need the absent tags too
        scores |= dict.fromkeys(("hamming_loss", *LABEL_METRICS), np.nan)
    extra: dict[str, Any] = {name: watcher.values for name, watcher in best.watchers.items()}
    if hasattr(best.model, "soft_labels_") and not trial.one_tag:
        extra["calibration"] = calibration_bins(best.model.soft_labels_, trial.Y_train, trial.observed)
    return {
        "n_train": len(trial.observed),
        "setting": json.dumps(best.setting, sort_keys=True),
        "parameters": full_setting(best.model),
        "tried": json.dumps(tried, sort_keys=True),
        "validation": best.validation,
        "best_epoch": facts.get("best_epoch", np.nan),
        "curve": json.dumps(_curve(cell, history, extra.pop("test_curve", None))),
        "extra": json.dumps(extra),
        **scores,
    }


def _choose(cell: Cell, trial: Trial, tried: list[dict[str, Any]]) -> _Fit:
    """Choose the best setting on validation rows, after screening if there are many; ties go to the first."""
    settings = list(cell.settings)
    groups = [tuple(setting.get(name) for name in cell.keep_each) for setting in settings]
    survivors = cell.keep * len(set(groups))
    if len(settings) > survivors and cell.screen_epochs and "max_epochs" in accepted_parameters(cell.key):
        scores = []
        for setting in settings:
            epochs = min(cell.screen_epochs, setting.get("max_epochs", cell.screen_epochs))
            fit = _fit(cell, trial, {**setting, "max_epochs": epochs}, watch=False)
            scores.append(fit.validation)
            tried.append({"setting": setting, "epochs": epochs, "validation": fit.validation})
        kept: list[int] = []
        for i in np.argsort(-_oriented(cell, np.array(scores)), kind="stable"):
            if sum(groups[j] == groups[i] for j in kept) < cell.keep:
                kept.append(int(i))
        settings = [settings[i] for i in sorted(kept)]
    best: _Fit | None = None
    for setting in settings:
        fit = _fit(cell, trial, setting)
        tried.append({"setting": setting, "validation": fit.validation})
        if best is None or _oriented(cell, fit.validation) > _oriented(cell, best.validation):
            best = fit
    assert best is not None
    return best


def _fit(cell: Cell, trial: Trial, setting: Parameters, *, watch: bool = True) -> _Fit:
    """Fit one setting. Full supervision sees complete labels under either rule."""
    complete = cell.sees_all_labels
    clean = complete or cell.rule == "clean"
    labels = trial.Y_val if clean else trial.observed_val
    parameters = dict(setting)
    if "random_state" in get_method(cell.key).load_class()._get_param_names():
        parameters["random_state"] = cell.seed + cell.trial
    model: Any = make_classifier(cell.key, **parameters)
    watchers: dict[str, Any] = {}
    if watch and "max_epochs" in accepted_parameters(cell.key):
        watchers |= {"test_curve": TestCurve(model.scale, trial)} if cell.test_curve else {}
        watchers |= {"soft_label_change": SoftLabelChange()} if cell.soft_label_change else {}
    model.fit(
        trial.X_train,
        trial.Y_train if complete else trial.observed,
        validation=(trial.X_val, labels),
        validation_labels="full" if clean else "single",
        **({"callbacks": list(watchers.values())} if watchers else {}),
    )
    history = getattr(model, "history_", None)
    if history is not None and history.facts.get("stopped") == "interrupted":
        raise KeyboardInterrupt  # the training loop keeps a usable model; a study must not store half a training
    validation = evaluate(labels, model.predict_proba(trial.X_val))[cell.metric]
    return _Fit(setting, model, float(validation), watchers)


def _oriented(cell: Cell, value: Any) -> Any:
    return value if higher_is_better(cell.metric) else -value


def _curve(cell: Cell, history: Any, test: list[float] | None) -> dict[str, list[float]]:
    name = f"valid_{cell.metric}"
    if history is None or not len(history) or name not in history[-1]:
        return {}
    curve = {"epoch": history["epoch"], "validation": history[name], "loss": history["loss"]}
    return curve | ({"test": test} if test is not None else {})


# Measurements for figures only; no choice depends on them.


class TestCurve(Callback):
    """Average precision on the test rows after each epoch."""

    __test__ = False  # not a test case, whatever its name begins with

    def __init__(self, scale: str, trial: Trial) -> None:
        # As the method scales them, which has a scaler only when it is trained.
        self.features = as_features(fit_scaler(trial.X_train, scale).transform(trial.X_test))
        self.Y, self.values = trial.Y_test, list[float]()

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Score the network as it is."""
        with torch.no_grad():
            logits = objective.network(self.features)
        self.values.append(average_precision(self.Y, logits.numpy().astype(np.float64)))


class SoftLabelChange(Callback):
    """Mean |D_t − D_{t−1}| over all training entries after each epoch, for methods with a label enhancement."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.last: torch.Tensor | None = None

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Compare D with that of the previous epoch."""
        enhancement = getattr(objective, "enhancement", None)
        if enhancement is None:
            return
        now = _soft_labels(enhancement.encoder)
        if self.last is not None:
            self.values.append(float((now - self.last).abs().mean()))
        self.last = now


@torch.no_grad()
def _soft_labels(encoder: Any) -> torch.Tensor:
    rows = torch.arange(encoder.aggregated.shape[0])
    parts = [encoder(part).chunk(2, dim=1) for part in torch.split(rows, 4096)]
    return torch.cat([torch.sigmoid(log_alpha - log_beta) for log_alpha, log_beta in parts])

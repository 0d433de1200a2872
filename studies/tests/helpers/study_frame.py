"""A made-up results frame in the form that the study's runner writes: one row a finished cell."""

import json

import numpy as np
import pandas as pd

from onepos.metrics import METRICS
from onepos_studies.study.figures import convergence, sufficiency
from onepos_studies.study.report import StudyFigure, render_study_report

LEVELS = {"smile": 0.80, "role": 0.76, "an": 0.70, "forest": 0.66, "frequency": 0.50, "bce": 0.88}
#: These have no epochs.
CLOSED = {"forest", "frequency"}
VERSIONS = {"onepos": "0.1.0", "torch": "2.9.0"}
MACHINE = {"cpu": "two cores", "system": "Linux"}


def result(dataset="scene", method="smile", trial=0, selection="clean", *, n_train=400, level=None, **more):
    """One finished cell whose average precision is ``level``; ``more`` replaces columns."""
    level = LEVELS.get(method, 0.5) if level is None else level
    setting = {"learning_rate": 0.001, "weight_decay": 0.0001}
    row = {
        "study": "made-up",
        "study_hash": "0123abcd",
        "cell": f"{dataset}/{method}/{trial}/{selection}/{n_train}",
        "dataset": dataset,
        "features": "paper",
        "method": method,
        "trial": trial,
        "selection": selection,
        "n_train": n_train,
        "train_fraction": 1.0,
        "status": "ok",
        "error": None,
        "setting": json.dumps(setting),
        "tried": json.dumps(
            [{"setting": setting | {"learning_rate": rate}, "validation": level - rate} for rate in (0.001, 0.01)]
        ),
        "validation": level - 0.001,
        "best_epoch": np.nan if method in CLOSED else 7.0,
        "average_precision": level,
        "one_error": 1 - level,
        "ranking_loss": (1 - level) / 2,
        "coverage": 0.9 - level / 2,
        "hamming_loss": (1 - level) / 3,
        "seconds": 2.5,
        "peak_megabytes": 310.0,
        "curve": None if method in CLOSED else json.dumps(curve(level, 10 + trial)),
        "extra": json.dumps(soft_labels(level, 10 + trial) if method in ("smile", "role") else {}),
        "versions": json.dumps(VERSIONS),
        "machine": json.dumps(MACHINE),
        "finished": "2025-11-16T06:00:00+00:00",
    }
    return row | more


def failed(dataset="scene", method="role", trial=1, selection="clean", error="ValueError: no"):
    """One cell that ended with an error."""
    lost = dict.fromkeys([*METRICS, "validation", "best_epoch", "peak_megabytes"], np.nan)
    lost |= {"tried": "[]", "curve": "{}", "extra": "{}"}
    return result(dataset, method, trial, selection, n_train=0, status="failed", error=error, **lost)


def curve(level, length):
    """Average precision that rises to ``level`` on test and validation rows."""
    epoch = np.arange(1, length + 1)
    test = level * (1 - 0.5 * np.exp(-epoch / 3))
    return {
        "epoch": epoch.tolist(),
        "validation": (test - 0.02).tolist(),
        "test": test.tolist(),
        "loss": np.exp(-epoch / 4).tolist(),
    }


def soft_labels(level, length):
    """Soft labels that settle over ``length`` epochs, and how well they are calibrated; the last bin is empty."""
    confidence = np.linspace(0.05, 0.85, 9)
    return {
        "soft_label_change": (0.1 * level * np.exp(-np.arange(length - 1) / 2.5)).tolist(),
        "calibration": {
            "confidence": confidence.tolist(),
            "frequency": (confidence ** (2 * level)).tolist(),
            "count": (10_000 * np.exp(-4 * confidence)).astype(int).tolist(),
        },
    }


def results(datasets=("yeast", "scene", "CAL500"), trials=3, selections=("clean", "single-positive"), levels=None):
    """All cells of a small study; trials and data sets differ a little, in a way that is known."""
    levels = LEVELS if levels is None else levels
    return pd.DataFrame(
        [
            result(dataset, method, trial, selection, level=level + 0.01 * trial - 0.05 * place - 0.02 * rule)
            for place, dataset in enumerate(datasets)
            for method, level in levels.items()
            for trial in range(trials)
            for rule, selection in enumerate(selections)
        ]
    )


NASTY = '<script>document.title = "broken"</script>'
TRACE = f'Traceback (most recent call last):\n  File "fit.py", line 3\nRuntimeError: {NASTY}'


def nasty_frame():
    """Results with holes, failures and hostile texts."""
    # One method finished on two of three data sets, one lacks a trial, one never finished.
    lost = [failed("scene", "role", 1, error=TRACE), failed("CAL500", NASTY, 1, error="ValueError: too few rows")]
    done = results()
    done.loc[done["dataset"] == "yeast", "features"] = "substitute"
    # The best of one table stands in a column far to the right, where a phone has to scroll.
    done.loc[done["method"] == "frequency", "coverage"] = 0.01
    forest = (done["method"] == "forest") & (done["dataset"] == "CAL500")
    return pd.concat(
        [done[~forest & ~done["cell"].eq("scene/role/1/clean/400")], pd.DataFrame(lost)], ignore_index=True
    )


def nasty_page(frame):
    """The page of such results."""
    small = frame[(frame["dataset"] == "scene") & (frame["selection"] == "clean")]
    figures = [
        StudyFigure("first", f"Figure {NASTY}", convergence(small)),
        StudyFigure("second", "Second", sufficiency(small)),
    ]
    return render_study_report(frame, figures, description="First & last.", study_file='name = "<made-up>"')

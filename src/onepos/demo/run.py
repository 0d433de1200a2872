"""The demo from start to end."""

import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from onepos import __version__
from onepos.demo.progress import Progress, Ticker, one_thread
from onepos.demo.recovery import count_recovered, find_examples
from onepos.demo.result import DemoResult
from onepos.demo.scenes import Scenes, make_scenes
from onepos.demo.train import train_once
from onepos.registry import METHODS
from onepos.report import Example, require_report, summarise, write_report
from onepos.training import History

#: What the demo trains, in the order of its table; the last sees every label.
DEMO_METHODS = ("frequency", "linear", "an", "smile", "bce")

# The shares of the work, measured; they only make the progress bar even.
_COST = {"frequency": 0.1, "linear": 2.0, "an": 2.0, "smile": 10.0, "bce": 2.0}


def run_demo(
    *,
    out: Path,
    random_state: int = 0,
    n_seeds: int = 3,
    n_train: int = 2500,
    n_validation: int = 500,
    n_test: int = 2000,
    max_epochs: int = 20,
    progress: Progress | None = None,
) -> DemoResult:
    """Train on pictures of digits of which one digit each is named, and write ``report.html``.

    Each run draws anew which positive of each picture is observed, and starts from other weights; the pictures stay.
    Epochs and strengths are chosen on validation pictures with one observed label each, which is what a user has;
    full supervision (``bce``) has all labels in training and validation.

    Parameters
    ----------
    out : Path
        Folder for the report; made if need be.
    random_state : int
        Everything that is random follows from it.
    n_seeds : int
        Runs of each method.
    n_train, n_validation, n_test : int
        Numbers of pictures.
    max_epochs : int
        Longest training of the neural methods.
    progress : callable, optional
        Called with the step's name and the share of the work done, 0 to 1.

    Raises
    ------
    KeyboardInterrupt
        Also when Ctrl-C came during a training run, which by itself would end in a usable model.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from onepos.demo import run_demo
    >>> with TemporaryDirectory() as folder:
    ...     result = run_demo(out=Path(folder), n_seeds=1, n_train=60, n_validation=20, n_test=20, max_epochs=1)
    >>> list(result.table.index)
    ['frequency', 'linear', 'an', 'smile', 'bce']
    """
    require_report()
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    tell: Progress = progress or (lambda step, share: None)
    data_seed, test_seed, *run_seeds = (
        int(s) for s in np.random.SeedSequence(random_state).generate_state(2 + n_seeds)
    )
    tell("making pictures", 0.0)
    scenes = make_scenes(n_train, n_validation, n_test, data_seed, test_seed)
    # 4× the default batch for speed, and 2× its rate by the square-root rule; the same for every network.
    settings = {"max_epochs": max_epochs, "batch_size": 64, "learning_rate": 2e-3}
    with one_thread():
        rows, histories, examples, recovered = _train_all(scenes, run_seeds, settings, tell)
    tell("writing the report", 1.0)
    scores = pd.DataFrame(rows).sort_values("method", key=lambda keys: keys.map(DEMO_METHODS.index), kind="stable")
    facts = {
        **recovered,
        **_describe(scenes),
        "version": __version__,
        "python": platform.python_version(),
        "random_state": random_state,
        "n_runs": n_seeds,
        "settings": settings,
        "seconds": time.perf_counter() - started,
    }
    path = write_report(summarise(scores, histories, examples, facts), out / "report.html")
    runs = {key: tuple(value) for key, value in histories.items()}
    return DemoResult(scores.reset_index(drop=True), runs, examples, facts, time.perf_counter() - started, path)


def _train_all(
    scenes: Scenes, run_seeds: list[int], settings: Mapping[str, Any], tell: Progress
) -> tuple[list[dict[str, Any]], dict[str, list[History]], tuple[Example, ...], dict[str, Any]]:
    """Train every method once a seed; the examples and the recovery figures are those of SMILE's first run."""
    total, done = len(run_seeds) * sum(_COST.values()), 0.0
    rows: list[dict[str, Any]] = []
    histories: dict[str, list[History]] = {}
    examples: tuple[Example, ...] = ()
    recovered: dict[str, Any] = {}
    for run, seed in enumerate(run_seeds, start=1):
        for key in DEMO_METHODS:
            step = f"{METHODS[key].name}, run {run} of {len(run_seeds)}"
            ticker = Ticker(tell, step, done / total, _COST[key] / total)
            row, model, observed = train_once(key, seed, scenes, settings, ticker)
            rows.append(row)
            if hasattr(model, "history_"):
                histories.setdefault(key, []).append(model.history_)
            if key == "smile" and run == 1:
                examples = find_examples(scenes, observed, model.soft_labels_)
                recovered = count_recovered(scenes.train[1], observed, model.soft_labels_)
                recovered["n_positives"] = model.n_positives_
            done += _COST[key]
    return rows, histories, examples, recovered


def _describe(scenes: Scenes) -> dict[str, Any]:
    Y = scenes.train[1]
    return {
        "n_train": len(Y),
        "n_validation": len(scenes.validation[1]),
        "n_test": len(scenes.test[1]),
        "n_labels": Y.shape[1],
        "mean_labels": float(Y.sum(axis=1).mean()),
    }

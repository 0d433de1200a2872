"""The main job from start to end on the embedded data: train, compare with full supervision, write a report."""

import platform
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from onepos import __version__
from onepos.datasets import make_digit_scenes, make_single_positive
from onepos.methods.registry import METHODS, make_classifier
from onepos.metrics import METRICS, evaluate
from onepos.pages import Example, require_report, summarise, write_report
from onepos.pages.demo_summary import PRESENT, top_labels
from onepos.training import Callback, History, Objective
from onepos.training.machine import limited_threads

__all__ = ["DEMO_METHODS", "DemoResult", "run_demo"]


@dataclass(frozen=True)
class Scenes:
    """Pictures to train on and to choose epochs on (same scans), and to test on (other scans)."""

    train: Any
    validation: Any
    test: Any
    label_names: list[str]
    images: NDArray[np.float32]


def make_scenes(n_train: int, n_validation: int, n_test: int, data_seed: int, test_seed: int) -> Scenes:
    """Draw the pictures; test pictures share no scan with the others."""
    seen = make_digit_scenes(n_train + n_validation, random_state=data_seed, scans="train")
    unseen = make_digit_scenes(n_test, random_state=test_seed, scans="test")
    return Scenes(
        (seen.X[:n_train], seen.Y[:n_train]),
        (seen.X[n_train:], seen.Y[n_train:]),
        (unseen.X, unseen.Y),
        list(seen.label_names),
        seen.images[:n_train],
    )


#: Told which step is under way and which share of the whole work is done.
Progress = Callable[[str, float], None]


class Ticker(Callback):
    """Turns batches and epochs of one run into the share of the whole demo."""

    def __init__(self, tell: Progress, step: str, start: float, width: float) -> None:
        self.tell, self.step, self.start, self.width = tell, step, start, width
        self.epoch, self.max_epochs = 0, 1

    def tick(self, share: float) -> None:
        """Tell the share of this run as a share of the whole."""
        self.tell(self.step, round(self.start + self.width * share, 6))

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        """Note how long it may take."""
        self.max_epochs = max_epochs

    def on_batch_end(self, done: int, total: int) -> None:
        """Move the bar."""
        self.tick((self.epoch + done / total) / self.max_epochs)

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Count the epoch."""
        self.epoch += 1


def train_once(
    key: str, seed: int, scenes: Scenes, settings: Mapping[str, Any], ticker: Ticker
) -> tuple[dict[str, Any], Any, NDArray[np.uint8]]:
    """Train one method once; returns its row of the table, the model and the labels it saw."""
    (X, Y), (X_validation, Y_validation) = scenes.train, scenes.validation
    full = key == "bce"
    draws = np.random.SeedSequence(seed).generate_state(2)
    observed = make_single_positive(Y, random_state=int(draws[0]))
    held = make_single_positive(Y_validation, random_state=int(draws[1]))
    started = time.perf_counter()
    ticker.tick(0.0)
    if key in ("frequency", "linear"):
        model: Any = make_classifier(key, random_state=seed)
        model.fit(X, observed, validation=(X_validation, held))
    else:
        model = make_classifier(key, random_state=seed, **settings)
        with warnings.catch_warnings():
            # The loop turns Ctrl-C into a warning and a model; here it means that the user wants to leave.
            warnings.filterwarnings("ignore", message="training was interrupted")
            model.fit(
                X,
                Y if full else observed,
                validation=(X_validation, Y_validation if full else held),
                validation_labels="full" if full else "single",
                callbacks=[ticker],
            )
        if model.history_.facts.get("stopped") == "interrupted":
            raise KeyboardInterrupt
    seconds = time.perf_counter() - started
    X_test, Y_test = scenes.test
    row = {"method": key, "name": METHODS[key].name, "full_labels": full, "seed": seed, "seconds": seconds}
    return row | evaluate(Y_test, model.predict_proba(X_test)), model, observed


N_EXAMPLES = 12
N_GUESSES = 3


def find_examples(scenes: Scenes, observed: NDArray[np.uint8], soft: NDArray[np.float32]) -> tuple[Example, ...]:
    """Take the first pictures as they come: a choice could flatter."""
    names = scenes.label_names
    return tuple(
        Example(
            scenes.images[row],
            names[int(observed[row].argmax())],
            top_labels(soft[row], observed[row], names, N_GUESSES),
            tuple(name for name, present in zip(names, scenes.train[1][row], strict=True) if present),
        )
        for row in range(min(N_EXAMPLES, len(observed)))
    )


def count_recovered(Y: NDArray[np.uint8], observed: NDArray[np.uint8], soft: NDArray[np.float32]) -> dict[str, Any]:
    """Count what was hidden and what came back of it, over the whole training set."""
    unknown = observed == 0
    hidden = unknown & (Y == 1)
    claimed = unknown & (soft >= PRESENT)
    some = hidden.any(axis=1)
    first = np.where(unknown, soft, -np.inf).argmax(axis=1)
    return {
        "hidden": int(hidden.sum()),
        "claimed": int(claimed.sum()),
        "found": int((hidden & claimed).sum()),
        # Among pictures that hide a label: is the likeliest unobserved label one of them, and would a blind guess be?
        "first_guess": float(hidden[np.flatnonzero(some), first[some]].mean()) if some.any() else 0.0,
        "first_guess_blind": float((hidden.sum(axis=1) / unknown.sum(axis=1))[some].mean()) if some.any() else 0.0,
    }


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes
    ----------
    scores : DataFrame
        One row per run: method, name, full_labels, seed, seconds, and the five measures on the test pictures.
    histories : mapping of method key to the histories of its runs
        For the methods trained epoch by epoch.
    examples : tuple of Example
        The first training pictures as they come, with what SMILE's first run recovered.
    facts : dict
        Sizes, settings, how much was recovered.
    seconds : float
        Time of the whole, without imports.
    report : Path
        The HTML file.
    """

    scores: pd.DataFrame
    histories: Mapping[str, tuple[History, ...]]
    examples: tuple[Example, ...]
    facts: Mapping[str, Any]
    seconds: float
    report: Path

    @property
    def table(self) -> pd.DataFrame:
        """The five measures by method, columns (measure, "mean" or "std"); a single run has no std (NaN)."""
        return self.scores.groupby("method", sort=False)[list(METRICS)].agg(["mean", "std"])


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
    >>> from onepos.pages.demo import run_demo
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
    # The batches are too small to share: on a busy machine, threads that wait for each other made the demo ten times
    # slower.
    with threadpool_limits(1), limited_threads(1):
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
    """Train every method once per seed; the examples and the recovery figures are those of SMILE's first run."""
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

"""The units of work: one method on one trial of one data set under one selection rule."""

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.datasets import (
    list_datasets,
    load_dataset,
    make_digit_scenes,
    make_known_posterior,
    make_single_positive,
    split,
)
from onepos.methods.registry import METHODS
from onepos.study.spec import Parameters, Rule, Study, accepted_parameters, digest, settings_of

#: Data sets that need no file, and their numbers of rows.
EMBEDDED = {"digit-scenes": 1000, "known-posterior": 1000}


@dataclass(frozen=True)
class Trial:
    """The three parts of a trial; ``observed`` and ``observed_val`` show one positive per row."""

    X_train: Any
    Y_train: NDArray[np.uint8]
    observed: NDArray[np.uint8]
    X_val: Any
    Y_val: NDArray[np.uint8]
    observed_val: NDArray[np.uint8]
    X_test: Any
    Y_test: NDArray[np.uint8]


def known_datasets() -> list[str]:
    """Return every name that a study may use."""
    return [*EMBEDDED, *_registered().index]


def matches_paper(name: str) -> bool:
    """Tell whether a data set has the paper's features; substitutes and embedded ones have others."""
    return name not in EMBEDDED and bool(_registered().loc[name, "matches_paper"])


def n_rows(name: str) -> int:
    """Return the number of rows without loading the data set."""
    return EMBEDDED[name] if name in EMBEDDED else int(_registered().loc[name, "instances"])


@lru_cache(maxsize=1)
def _registered() -> Any:
    return list_datasets().set_index("name")


@lru_cache(maxsize=2)
def data_set(name: str) -> tuple[Any, Any]:
    """Return features and complete labels; the last two sets are cached for the next cell."""
    if name == "digit-scenes":
        data: Any = make_digit_scenes(EMBEDDED[name], random_state=0)
    elif name == "known-posterior":
        data = make_known_posterior(EMBEDDED[name], 10, 8, random_state=0)
    else:
        data = load_dataset(name)
    return data.X, data.Y


@lru_cache(maxsize=2)
def load_trial(
    name: str, seed: int, trial: int, fractions: tuple[float, float, float], positive_rule: str, train_fraction: float
) -> Trial:
    """Split a data set for a trial and draw its positives; the last two trials are cached for the next cell.

    A training fraction takes the beginning of one random order: smaller parts lie in larger ones, and validation and
    test rows never change.
    """
    X, Y = data_set(name)
    parts = split(X, Y, fractions=fractions, random_state=seed + trial)
    rule: Any = positive_rule
    observed: Any = make_single_positive(parts.Y_train, selection=rule, random_state=seed + 1000 + trial)
    observed_val: Any = make_single_positive(parts.Y_val, selection=rule, random_state=seed + 2000 + trial)
    n = max(2, round(train_fraction * len(observed)))
    return Trial(
        parts.X_train[:n],
        parts.Y_train[:n],
        observed[:n],
        parts.X_val,
        parts.Y_val,
        observed_val,
        parts.X_test,
        parts.Y_test,
    )


@dataclass(frozen=True)
class Cell:
    """Everything that the result of a cell depends on; no cell needs the whole study.

    Attributes
    ----------
    settings : what is tried; one setting when nothing is chosen
    takes_over : the trial whose choice this cell uses, or None when it chooses itself
    """

    dataset: str
    method: str
    key: str
    trial: int
    rule: Rule
    train_fraction: float
    seed: int
    fractions: tuple[float, float, float]
    positive_rule: str
    metric: str
    settings: tuple[Parameters, ...]
    screen_epochs: int
    keep: int
    keep_each: tuple[str, ...]
    takes_over: int | None
    test_curve: bool = False
    soft_label_change: bool = False

    @property
    def id(self) -> str:
        """A file name: what the cell is, in words, and a hash of everything else it depends on."""
        size = "" if self.train_fraction == 1.0 else f"--{self.train_fraction:g}"
        words = f"{self.dataset}--{self.method}--{self.rule}{size}--trial{self.trial}"
        return f"{re.sub(r'[^A-Za-z0-9.+_-]', '_', words)}--{digest(asdict(self))[:8]}"

    @property
    def chooser(self) -> tuple[Any, ...]:
        """What identifies the cell whose choice this one takes over."""
        return (self.dataset, self.method, self.rule, self.train_fraction, self.takes_over)


def cells_of(study: Study) -> list[Cell]:
    """Every cell of a study. Cells of one split follow each other, so that what they share is loaded once."""
    cells = []
    for group in study.data:
        for dataset in group.sets:
            each = study.tuning.when == "each-trial" or n_rows(dataset) < study.tuning.each_trial_below
            for trial in range(study.trials):
                for fraction in group.train_fractions:
                    for method in study.methods:
                        settings = tuple(settings_of(study, group, method, dataset))
                        alone = each or len(settings) == 1
                        for rule in group.rules or study.rules:
                            cells.append(
                                Cell(
                                    dataset=dataset,
                                    method=method.name,
                                    key=method.key,
                                    trial=trial,
                                    rule=rule,
                                    train_fraction=fraction,
                                    seed=study.seed,
                                    fractions=study.fractions,
                                    positive_rule=study.positive_rule,
                                    metric=study.metric,
                                    settings=settings,
                                    screen_epochs=study.tuning.screen_epochs,
                                    keep=study.tuning.keep,
                                    keep_each=study.tuning.keep_each,
                                    takes_over=None if alone or trial == 0 else 0,
                                    test_curve=dataset in study.record.test_curve,
                                    soft_label_change=dataset in study.record.soft_label_change,
                                )
                            )
    return cells


def run_together(cells: list[Cell]) -> list[list[Cell]]:
    """Group the cells that one process runs: those that differ in their rule only and can share fits.

    Rules share fits where validation labels only choose among finished fits, or are complete under either rule.
    """
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        shares = "max_epochs" not in accepted_parameters(cell.key) or sees_all_labels(cell.key)
        rule = None if shares else cell.rule
        groups.setdefault((cell.dataset, cell.method, cell.trial, cell.train_fraction, rule), []).append(cell)
    return list(groups.values())


def sees_all_labels(key: str) -> bool:
    """Return whether a method trains on complete labels: full supervision."""
    return bool(METHODS[key].load_class()._y_is_full)

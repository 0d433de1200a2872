"""The units of work: one method on one trial of one data set under one selection rule."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from onepos.registry import METHODS
from onepos.study.data import n_rows
from onepos.study.parameters import accepted_parameters, settings_of
from onepos.study.spec import Parameters, Rule, Study, digest


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
    """Group cells for one process each: those that differ in their rule only and can share what is fitted.

    That is so where validation labels choose among finished fits, or are complete under either rule. Where they end
    training or tell the number of positives, each rule has fits of its own.
    """
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        shares = "max_epochs" not in accepted_parameters(cell.key) or METHODS[cell.key].load_class()._y_is_full
        differs = None if shares else cell.rule
        groups.setdefault((cell.dataset, cell.method, cell.trial, cell.train_fraction, differs), []).append(cell)
    return list(groups.values())

"""Timings whose competitors take turns, the median of their ratios, and the plain records that sections return."""

import operator
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

_SENSES = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt}


def seconds_of(call: Callable[[], object]) -> Callable[[], float]:
    """Wrap a call so that it returns the wall time it took."""

    def timed() -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    return timed


def alternate(
    competitors: Mapping[str, Callable[[], float]], repeats: int, *, warm: bool = False
) -> dict[str, list[float]]:
    """Let every competitor run once a repeat and return what each call returned, by name.

    The order turns around from one repeat to the next: a machine that slows down or warms up during the run then
    favours nobody. ``warm`` lets each run once more beforehand, uncounted: for short calls, whose first one pays for
    memory and lazy imports.
    """
    for call in competitors.values() if warm else ():
        call()
    numbers: dict[str, list[float]] = {name: [] for name in competitors}
    for repeat in range(repeats):
        names = list(competitors) if repeat % 2 == 0 else list(reversed(competitors))
        for name in names:
            numbers[name].append(float(competitors[name]()))
    return numbers


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest of some values."""
    return {"value": float(median(values)), "low": float(min(values)), "high": float(max(values))}


def ratio(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """Spread of the ratios of paired repeats.

    Not the ratio of two medians: the members of a pair were measured within the same minute, so that what slows both
    of them cancels.
    """
    return spread([a / b for a, b in zip(above, below, strict=True)])


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of log value over log size: 1 for linear growth, 2 for quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def is_met(value: float, target: str) -> bool:
    """Whether a value fulfils a target such as ">= 2"."""
    sense, limit = target.split()
    return bool(_SENSES[sense](value, float(limit)))


def record(
    case: str, measure: str, numbers: Mapping[str, float], *, unit: str = "×", target: str | None = None, **more: Any
) -> dict[str, Any]:
    """One line of the results: what was measured on what, the value with its spread, and the target it must meet.

    ``more`` may hold ``note`` (shown beside the line) and ``raw`` (lists of numbers by competitor, stored, and shown
    as medians).
    """
    line = {"case": case, "measure": measure, **numbers, "unit": unit, "target": target, **more}
    return {name: value for name, value in line.items() if value is not None}


def left_out(case: str, why: str = "not in the data folder") -> dict[str, Any]:
    """The record of something that could not be measured."""
    return {"case": case, "left_out": why}

"""What a worker of a cluster does with cells: see that it can run them here, then run them as a local process would."""

import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from onepos.datasets._cache import data_folder
from onepos.exceptions import OneposError
from onepos.study.cells import Cell
from onepos.study.data import data_set
from onepos.study.engine import Worker
from onepos.study.execute import Row, run_cells
from onepos.study.folder import ResultsFolder
from onepos.study.spec import Parameters


class Unfit(NamedTuple):
    """A worker's answer instead of rows: it is the wrong place for these cells, which are none the worse for it."""

    worker: str
    host: str
    reason: str


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread whatever runs beside: cores are not oversubscribed, and bits do not depend on where."""
    from threadpoolctl import threadpool_limits

    from onepos.training.threads import limited_threads

    with threadpool_limits(1), limited_threads(1):
        yield


def work_on_cluster(
    cells: list[Cell], choices: list[Parameters | None], folder: ResultsFolder, this_worker: Callable[[], Worker]
) -> list[Row] | Unfit:
    """Return the rows of cells from ``run_together``, or why they cannot be run on this worker.

    Nothing is stored here: rows go back to the one runner. Only the note that a cell is under way is left in the
    results folder, where the worker sees it.
    """
    me = this_worker()
    reason = _unfit(cells[0].dataset, me)
    if reason:
        return Unfit(me.name, socket.gethostname(), reason)
    if folder.is_within_reach():
        for cell in cells:
            folder.note_start(cell)
    with one_thread():
        return run_cells(cells, choices)


def _unfit(dataset: str, me: Worker) -> str:
    if me.threads > 1:
        return (
            f"has {me.threads} threads, and a cell needs a process to itself: start it with --nthreads 1, and "
            "--nworkers for several side by side."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data_set(dataset)
    except (OneposError, OSError) as error:
        return (
            f"cannot load {dataset} (its data folder is {data_folder()}): {error} Set ONEPOS_DATA, where the worker "
            f"is started, to a folder that it can read and that has the data set (`onepos datasets fetch {dataset}`)."
        )
    return ""

"""Run what is missing of a study: in parallel, resumable, one writer, failures recorded and the rest goes on."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from onepos.study.cells import Cell, cells_of, run_together
from onepos.study.dispatch import run_on_cluster
from onepos.study.engine import Engine, one_thread, open_engine
from onepos.study.execute import Row, failed_row, run_cells
from onepos.study.folder import ResultsFolder
from onepos.study.spec import Parameters, Study

if TYPE_CHECKING:
    import pandas as pd


# Worker processes that end with their runner, however it ends, and not before: it says when they stop.


_watched = False


def this_process() -> tuple[str, int]:
    """Return what identifies this process among those of several machines."""
    return socket.gethostname(), os.getpid()


def end_with_runner(runner: tuple[str, int], every: float = 1.0) -> None:
    """In a worker on the runner's machine, watch the runner and leave as soon as it is gone; elsewhere do nothing.

    Parameters
    ----------
    runner : from ``this_process`` in the runner
    every : float
        Seconds between looks.
    """
    global _watched
    host, process = runner
    if _watched or process == os.getpid() or host != socket.gethostname():
        return
    _watched = True
    # A terminal and a service manager send these to the runner and its workers alike. The runner ends them; one that
    # were gone before it would look like one that was killed for want of memory.
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
    is_child = os.getppid() == process

    def watch() -> None:
        # A child has another parent as soon as its own ends; its number stays taken until somebody asks how it ended.
        while os.getppid() == process if is_child else _alive(process):
            time.sleep(every)
        os._exit(1)  # nobody is left to take a result

    threading.Thread(target=watch, name="end-with-runner", daemon=True).start()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 asks only whether there is such a process
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Observer:
    """Told what happens; the base class does nothing."""

    def on_begin(self, study: Study, done: int, failed: int, total: int) -> None:
        """Run once: how many cells have a good row, how many failed before and are tried again, of how many."""

    def on_cell(self, row: Row, done: int, failed: int, total: int) -> None:
        """Run after each finished cell with its row and the counts of this moment."""

    def on_worker_died(self, cells: list[str]) -> None:
        """Run when a worker process was killed; these cells were under way."""

    def on_notice(self, text: str) -> None:
        """Run when a cluster has something to say: that it has no worker, or one that cannot run a cell."""

    def on_end(self, done: int, failed: int, total: int) -> None:
        """Run once at the end, also when interrupted."""


def run_study(
    study: Study,
    text: str,
    folder: ResultsFolder,
    *,
    jobs: int | None = None,
    backend: str = "loky",
    address: str | None = None,
    datasets: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    reuse: "pd.DataFrame | None" = None,
    observer: Observer | None = None,
) -> tuple[int, int]:
    """Run every cell that has no good row yet.

    Parameters
    ----------
    study, text : from ``read_study``
    folder : ResultsFolder
    jobs : processes side by side; None for one a core. Each computes with one thread.
    backend : "loky" for processes of this machine, "dask" or "ray" for the workers of a cluster
    address : of the cluster; None starts one on this machine
    datasets, methods : run only the cells of these; all when empty
    reuse : results from ``load_results``; cells that are in there, with the very same protocol, are not run again
    observer : Observer

    Returns
    -------
    done, failed : int
        How many cells of the selection have a good row now, and how many a failed one.
    """
    observer = observer or Observer()
    with open_engine(backend, address, jobs) as engine, folder.locked():
        folder.prepare(study, text)  # not before: the study file of a run under way is not to be touched
        cells = cells_of(study)
        wanted = [
            cell
            for cell in cells
            if (not datasets or cell.dataset in datasets) and (not methods or cell.method in methods)
        ]
        if reuse is not None:
            # All of them, whatever is run now: an export of the folder shall not lose what went into it.
            _take_over(reuse, cells, folder)
        state = _State(folder, study, wanted)
        observer.on_begin(study, len(state.done), len(state.failed), len(wanted))
        try:
            while ready := state.ready():
                place = engine or jobs or os.cpu_count() or 1
                # Closed at once when this fails or is stopped: workers end before the lock is given up.
                with closing(_run_all(ready, state, folder, place, observer)) as rows:
                    for row in rows:
                        folder.add(row)
                        state.note(row)
                        observer.on_cell(row, len(state.done), len(state.failed), len(wanted))
        finally:
            observer.on_end(len(state.done), len(state.failed), len(wanted))
    return len(state.done), len(state.failed)


def _take_over(reuse: "pd.DataFrame", cells: list[Cell], folder: ResultsFolder) -> None:
    missing = {cell.id for cell in cells if not folder.has_row(cell)}
    for row in reuse[(reuse["status"] == "ok") & reuse["cell"].isin(missing)].to_dict("records"):
        folder.add({str(name): value for name, value in row.items() if name not in ("study", "study_hash")})


class _State:
    """Which cells are done, failed, or ready to run."""

    def __init__(self, folder: ResultsFolder, study: Study, wanted: list[Cell]) -> None:
        self.wanted = wanted
        self.choices: dict[tuple[Any, ...], Parameters] = {}
        self.done: set[str] = set()
        self.failed: set[str] = set()
        self.attempted: set[str] = set()
        frame = folder.frame(study)
        known = {cell.id for cell in wanted}
        for row in frame.to_dict("records"):
            self._learn({str(name): value for name, value in row.items()}, known)

    def ready(self) -> list[Cell]:
        """Return the cells to run now: not done, not tried in this run, and with a choice to take over if they need."""
        return [
            cell
            for cell in self.wanted
            if cell.id not in self.done
            and cell.id not in self.attempted
            and (cell.takes_over is None or cell.chooser in self.choices)
        ]

    def choices_for(self, task: list[Cell]) -> list[Parameters | None]:
        """Return the settings that cells take over; None for one that chooses itself."""
        return [self.choices.get(cell.chooser) for cell in task]

    def note(self, row: Row) -> None:
        """Take a finished cell into account."""
        self.attempted.add(row["cell"])
        self.failed.discard(row["cell"])
        self._learn(row, {row["cell"]})

    def _learn(self, row: Row, known: set[str]) -> None:
        if row["status"] == "ok":
            chooser = (row["dataset"], row["method"], row["selection"], row["train_fraction"], row["trial"])
            self.choices[chooser] = json.loads(row["setting"])
        if row["cell"] in known:
            (self.done if row["status"] == "ok" else self.failed).add(row["cell"])


def _run_all(
    cells: list[Cell], state: _State, folder: ResultsFolder, place: Engine | int, observer: Observer
) -> Generator[Row, None, None]:
    """Yield the rows of cells from a cluster, or from so many processes of this machine."""
    if isinstance(place, int):
        return _run_here(cells, state, folder, place, observer)
    tasks = [(task, state.choices_for(task)) for task in run_together(cells)]
    return run_on_cluster(place, tasks, folder, observer.on_notice)


def _run_here(
    cells: list[Cell], state: _State, folder: ResultsFolder, jobs: int, observer: Observer
) -> Generator[Row, None, None]:
    """Yield rows as they come. When a worker is killed, the cells under way are tried again one at a time.

    The death of one worker takes the others with it, so that only a cell that dies alone is known to be the cause.
    """
    left = {cell.id: cell for cell in cells}
    while left:
        try:
            for row in _pool(list(left.values()), state, folder, jobs):
                del left[row["cell"]]
                yield row
        except TerminatedWorkerError:
            under_way = [note["cell"] for note in folder.running() if note["cell"] in left]
            observer.on_worker_died(under_way)
            for name in under_way or list(left)[:1]:
                cell = left.pop(name)
                try:
                    yield from _pool([cell], state, folder, jobs)
                except TerminatedWorkerError:
                    folder.note_end(name)
                    yield failed_row(cell, "its process was killed twice, perhaps for want of memory; try fewer --jobs")


def _pool(cells: list[Cell], state: _State, folder: ResultsFolder, jobs: int) -> Iterator[Row]:
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1, idle_worker_timeout=60):
        work = (delayed(_work)(task, state.choices_for(task), folder, this_process()) for task in run_together(cells))
        for rows in Parallel(return_as="generator_unordered", pre_dispatch="n_jobs")(work):
            yield from rows


def _work(
    cells: list[Cell], choices: list[Parameters | None], folder: ResultsFolder, runner: tuple[str, int]
) -> list[Row]:
    end_with_runner(runner)
    for cell in cells:
        folder.note_start(cell)
    with one_thread():
        return run_cells(cells, choices)

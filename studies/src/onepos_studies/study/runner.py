"""Run the missing cells of a study in parallel, with one writer. Failures are recorded, and other cells go on."""

import json
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from onepos_studies.exceptions import StudyError
from onepos_studies.study.cells import Cell, cells_of, run_together
from onepos_studies.study.cluster import Task, open_cluster, run_on_cluster
from onepos_studies.study.execute import Row, failed_row, run_cells
from onepos_studies.study.folder import ResultsFolder
from onepos_studies.study.provenance import data_version, is_current
from onepos_studies.study.spec import Parameters, Study

if TYPE_CHECKING:
    import pandas as pd

#: The names that ``--backend`` takes.
BACKENDS = ("local", "dask")


class Observer:
    """Callbacks of a run; the base class does nothing."""

    def on_begin(self, study: Study, done: int, failed: int, total: int) -> None:
        """Run once with the numbers of cells: done, failed before (they are tried again), and all."""

    def on_cell(self, row: Row, done: int, failed: int, total: int) -> None:
        """Run after each finished cell, with its row and the present counts."""

    def on_notice(self, text: str) -> None:
        """Run when a worker process was killed, or when a cluster has none."""


def run_study(
    study: Study,
    text: str,
    folder: ResultsFolder,
    *,
    jobs: int | None = None,
    backend: str = "local",
    address: str | None = None,
    datasets: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    reuse: "pd.DataFrame | None" = None,
    recompute: bool = False,
    observer: Observer | None = None,
) -> tuple[int, int]:
    """Run every cell that has no good row yet.

    Parameters
    ----------
    study, text : from ``read_study``
    folder : ResultsFolder
    jobs : processes side by side, each with one thread; None for one per core
    backend : "local" for processes of this machine, "dask" for the workers of a cluster
    address : of the cluster's scheduler; None starts a cluster on this machine
    datasets, methods : run only the cells of these; all when empty
    reuse : results from ``load_results``; cells with the same protocol are taken from there
    recompute : also run cells again whose rows belong to another revision of their method
    observer : Observer

    Returns
    -------
    done, failed : int
        How many of the selected cells now have a good row, and how many a failed one.
    """
    observer = observer or Observer()
    with _open_backend(backend, address, jobs) as cluster, folder.locked():
        folder.prepare(study, text)  # under the lock: another run may be using the folder's study file
        cells = cells_of(study)
        if reuse is not None:
            # All cells, whatever is run now: an export of the folder must not lose what went into it.
            _take_over(reuse, cells, folder)
        wanted = [cell for cell in cells if cell.dataset in (datasets or study.datasets)]
        wanted = [cell for cell in wanted if not methods or cell.method in methods]
        frame = folder.frame(study)
        current = is_current(frame)
        state = _State(frame[current] if recompute else frame, wanted)
        _check_data(frame, state.ready(), folder)
        observer.on_begin(study, *state.counts)
        if not all(current) and not recompute:
            observer.on_notice(
                f"{len(frame) - sum(current)} rows in {folder.path} belong to other revisions of their methods and are "
                "kept; --recompute runs their cells again."
            )
        while groups := run_together(state.ready()):
            # With each cell the setting that it takes over; None for a cell that chooses itself.
            tasks: list[Task] = [(group, [state.choices.get(cell.chooser) for cell in group]) for group in groups]
            if cluster is not None:
                rows = run_on_cluster(cluster, tasks, folder, observer.on_notice)
            else:
                rows = _run_here(tasks, folder, jobs or os.cpu_count() or 1, observer.on_notice)
            # Closed at once on an error or a stop: workers end before the lock is released.
            with closing(rows):
                for row in rows:
                    folder.add(row)
                    state.note(row)
                    observer.on_cell(row, *state.counts)
    return len(state.done), len(state.failed)


@contextmanager
def _open_backend(backend: str, address: str | None, jobs: int | None) -> Iterator[Any]:
    if backend not in BACKENDS:
        raise StudyError(f"--backend must be one of {', '.join(BACKENDS)}; got {backend!r}.")
    if backend == "local":
        if address is not None:
            raise StudyError("--address needs --backend dask; the local backend uses this machine only.")
        yield None
        return
    if address is not None and jobs is not None:
        raise StudyError(
            "--jobs counts processes on this machine; a cluster at an --address has the workers that it was given."
        )
    with open_cluster(address, jobs) as client:
        yield client


def _take_over(reuse: "pd.DataFrame", cells: list[Cell], folder: ResultsFolder) -> None:
    missing = {cell.id for cell in cells if not folder.has_row(cell)}
    known = reuse[(reuse["status"] == "ok") & reuse["cell"].isin(missing)]
    for row in known.drop(columns=["study", "study_hash"]).to_dict("records"):
        folder.add({str(name): value for name, value in row.items()})


def _check_data(frame: "pd.DataFrame", cells: list[Cell], folder: ResultsFolder) -> None:
    """Raise StudyError if cells would run on other data than those that rows of the folder are from."""
    if "data" not in frame:
        return
    known = frame[frame["data"].notna() & (frame["data"] != "")].groupby("dataset")["data"].unique()
    sources = {cell.dataset: cell.source for cell in cells}
    for name in sorted(sources.keys() & set(known.index)):
        try:
            now = data_version(sources[name])
        except (OSError, ValueError):
            continue  # the data are not here, or broken: the cells fail and say why
        if any(now != before for before in known[name]):
            raise StudyError(
                f"the data set {name} has changed: rows in {folder.path} are from data with the hash {known[name][0]}, "
                f"and it is {now} now. Put the old data back, or give another --out."
            )


class _State:
    """Which cells are done, failed, or ready to run."""

    def __init__(self, frame: "pd.DataFrame", wanted: list[Cell]) -> None:
        self.wanted, self.known = wanted, {cell.id for cell in wanted}
        self.choices: dict[tuple[Any, ...], Parameters] = {}
        self.done: set[str] = set()
        self.failed: set[str] = set()
        self.attempted: set[str] = set()
        for row in frame.to_dict("records"):
            self._learn(row)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of cells done, failed, and wanted."""
        return len(self.done), len(self.failed), len(self.wanted)

    def ready(self) -> list[Cell]:
        """Return the cells that are neither done nor tried in this run, and whose setting is known if they need one."""
        return [
            cell
            for cell in self.wanted
            if cell.id not in self.done | self.attempted and (cell.takes_over is None or cell.chooser in self.choices)
        ]

    def note(self, row: Row) -> None:
        """Take a finished cell into account."""
        self.attempted.add(row["cell"])
        self.failed.discard(row["cell"])
        self._learn(row)

    def _learn(self, row: Any) -> None:
        ok = row["status"] == "ok"
        if ok:
            chooser = (row["dataset"], row["method"], row["selection"], row["train_fraction"], row["trial"])
            self.choices[chooser] = json.loads(row["setting"])
        if row["cell"] in self.known:
            (self.done if ok else self.failed).add(row["cell"])


# Processes of this machine.


def _run_here(
    tasks: list[Task], folder: ResultsFolder, jobs: int, notice: Callable[[str], None]
) -> Generator[Row, None, None]:
    """Yield rows as they come. When a worker is killed, and all others with it, running tasks are tried one by one."""
    left = tasks
    while left:
        try:
            for rows in _pool(left, folder, jobs):
                left = [task for task in left if task[0][0].id != rows[0]["cell"]]
                yield from rows
        except TerminatedWorkerError:
            running = {note["cell"] for note in folder.running()}
            suspects = [task for task in left if task[0][0].id in running] or left[:1]
            under_way = ", ".join(cell.id for cells, _ in suspects for cell in cells)
            notice(f"a worker process was killed; under way: {under_way}; starting it again")
            left = [task for task in left if task not in suspects]
            for task in suspects:
                try:
                    for rows in _pool([task], folder, jobs):
                        yield from rows
                except TerminatedWorkerError:
                    for cell in task[0]:
                        folder.note_end(cell.id)
                        yield failed_row(cell, "its process was killed twice, perhaps out of memory; try fewer --jobs")


def _pool(tasks: list[Task], folder: ResultsFolder, jobs: int) -> Iterator[list[Row]]:
    runner = (socket.gethostname(), os.getpid())
    threads = max(1, cpu_count() // jobs)  # for cells that stop by the clock; the others limit themselves
    with (
        parallel_config("loky", n_jobs=jobs, inner_max_num_threads=threads, idle_worker_timeout=60),
        warnings.catch_warnings(),
    ):
        # joblib replaces a worker whose memory has grown; no cell is lost.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        work = (delayed(_work)(cells, choices, folder, runner) for cells, choices in tasks)
        yield from Parallel(return_as="generator_unordered", pre_dispatch="n_jobs")(work)


def _work(
    cells: list[Cell], choices: list[Parameters | None], folder: ResultsFolder, runner: tuple[str, int]
) -> list[Row]:
    end_with_runner(runner)
    for cell in cells:
        folder.note_start(cell)
    return run_cells(cells, choices)


_watched = False


def end_with_runner(runner: tuple[str, int], every: float = 1.0) -> None:
    """In a worker process, watch the runner (host, process id) and exit as soon as it is gone."""
    global _watched
    host, process = runner
    if _watched or process == os.getpid() or host != socket.gethostname():
        return
    _watched = True
    # A terminal or service manager signals the runner and its workers alike. The runner ends its workers; a worker that
    # ended first would look like one that was killed for want of memory.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    is_child = os.getppid() == process

    def watch() -> None:
        # A child gets another parent as soon as its own ends, even while the parent's process id is still taken.
        while os.getppid() == process if is_child else _is_alive(process):
            time.sleep(every)
        os._exit(1)  # nobody is left to take a result

    threading.Thread(target=watch, name="end-with-runner", daemon=True).start()


def _is_alive(process: int) -> bool:
    """Return whether a process of this id runs on this machine."""
    try:
        os.kill(process, 0)  # signal 0 only asks whether the process exists
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True

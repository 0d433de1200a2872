"""Run the missing cells of a study in parallel, with one writer. Failures are recorded, and other cells go on."""

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from onepos_studies.exceptions import StudyError
from onepos_studies.study.cells import Cell, cells_of, run_together
from onepos_studies.study.cluster import open_cluster, run_on_cluster
from onepos_studies.study.execute import Row, Task, failed_row, run_noted
from onepos_studies.study.folder import ResultsFolder
from onepos_studies.study.provenance import data_version, is_current
from onepos_studies.study.spec import Parameters, Study

if TYPE_CHECKING:
    import pandas as pd


def run_study(
    study: Study,
    text: str,
    folder: ResultsFolder,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    datasets: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    reuse: "pd.DataFrame | None" = None,
    recompute: bool = False,
    log: Callable[[str], None] = lambda line: None,
) -> tuple[int, int]:
    """Run every cell that has no good row yet.

    Parameters
    ----------
    study, text : from ``read_study``
    folder : ResultsFolder
    jobs : processes of this machine side by side, each with one thread; None for one per core
    cluster : address of a Dask scheduler, whose workers run the cells
    datasets, methods : run only the cells of these; all when empty
    reuse : results from ``load_results``; cells with the same protocol are taken from there
    recompute : also run cells again whose rows belong to another revision of their method
    log : called with a line per finished cell, and with notices

    Returns
    -------
    done, failed : int
        How many of the selected cells now have a good row, and how many a failed one.
    """
    if cluster is not None and jobs is not None:
        raise StudyError("--jobs counts processes of this machine; a --cluster has the workers that it was given.")
    with nullcontext() if cluster is None else open_cluster(cluster) as client, folder.locked():
        folder.prepare(study, text)  # under the lock: another run may be using the folder's study file
        cells = cells_of(study)
        if reuse is not None:
            # All cells, whatever is run now: an export of the folder must not lose what went into it.
            _take_over(reuse, cells, folder)
        wanted = [cell for cell in cells if cell.dataset in (datasets or study.datasets)]
        wanted = [cell for cell in wanted if not methods or cell.method in methods]
        frame = folder.frame()
        current = is_current(frame)
        state = _State(frame[current] if recompute else frame, wanted)
        _check_data(frame, state.ready(), folder)
        again = f", {len(state.failed)} failed before and are tried again" if state.failed else ""
        log(f"study {study.name} ({study.content_hash}): {len(state.done)} of {len(wanted)} cells done{again}")
        if not all(current) and not recompute:
            log(
                f"{len(frame) - sum(current)} rows in {folder.path} belong to other revisions of their methods and are "
                "kept; --recompute runs their cells again."
            )
        while groups := run_together(state.ready()):
            tasks: list[Task] = [(group, [state.choices.get(cell.chooser) for cell in group]) for group in groups]
            if client is not None:
                rows = run_on_cluster(client, tasks, folder, log)
            else:
                rows = _run_here(tasks, folder, jobs or os.cpu_count() or 1, log)
            # Closed at once on an error or a stop: workers end before the lock is released.
            with closing(rows):
                for row in rows:
                    folder.add(row)
                    log(state.note(row))
    return len(state.done), len(state.failed)


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
        self.started, self.before = time.monotonic(), len(self.done)

    def ready(self) -> list[Cell]:
        """Return the cells that are neither done nor tried in this run, and whose setting is known if they need one."""
        return [
            cell
            for cell in self.wanted
            if cell.id not in self.done | self.attempted and (cell.takes_over is None or cell.chooser in self.choices)
        ]

    def note(self, row: Row) -> str:
        """Take a finished cell into account, and return a line on it; cells of this run give the time left."""
        self.attempted.add(row["cell"])
        self.failed.discard(row["cell"])
        self._learn(row)
        known = len(self.done) + len(self.failed)
        here = known - self.before
        seconds = (time.monotonic() - self.started) * (len(self.wanted) - known) / here if here else 0.0
        left = timedelta(seconds=round(seconds)) if here else "?"
        return f"[{known}/{len(self.wanted)}, {left} left] {outcome(row)}"

    def _learn(self, row: Any) -> None:
        ok = row["status"] == "ok"
        if ok:
            chooser = (row["dataset"], row["method"], row["selection"], row["train_fraction"], row["trial"])
            self.choices[chooser] = json.loads(row["setting"])
        if row["cell"] in self.known:
            (self.done if ok else self.failed).add(row["cell"])


def outcome(row: Row) -> str:
    """One line about a finished cell."""
    name = f"{row['dataset']} {row['method']} {row['selection']} trial {row['trial']}"
    if row["status"] != "ok":
        return f"{name}: FAILED {row['error']}"
    return f"{name}: average precision {row['average_precision']:.4f}, {row['seconds']:.1f} s"


# Processes of this machine.


def _run_here(
    tasks: list[Task], folder: ResultsFolder, jobs: int, log: Callable[[str], None]
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
            log(f"a worker process was killed; under way: {under_way}; starting it again")
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
    threads = max(1, cpu_count() // jobs)  # for cells that stop by the clock; the others limit themselves
    with (
        parallel_config("loky", n_jobs=jobs, inner_max_num_threads=threads, idle_worker_timeout=60),
        warnings.catch_warnings(),
    ):
        # joblib replaces a worker whose memory has grown; no cell is lost.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        work = (delayed(_work)(task, folder, os.getpid()) for task in tasks)
        yield from Parallel(return_as="generator_unordered", pre_dispatch="n_jobs")(work)


def _work(task: Task, folder: ResultsFolder, runner: int) -> list[Row]:
    end_with_runner(runner)
    return run_noted(task, folder)


_watched = False


def end_with_runner(runner: int, every: float = 1.0) -> None:
    """In a worker process, watch the runner, its parent, and exit as soon as it is gone."""
    global _watched
    if _watched or os.getppid() != runner:  # one job runs in the runner itself
        return
    _watched = True
    # A terminal or service manager signals the runner and its workers alike. The runner ends its workers; a worker that
    # ended first would look like one that was killed for want of memory.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(every)
        os._exit(1)  # nobody is left to take a result

    threading.Thread(target=watch, name="end-with-runner", daemon=True).start()

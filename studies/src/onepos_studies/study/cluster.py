"""Run the cells of a study on the workers of a Dask cluster."""

import socket
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit
from uuid import uuid4

from onepos._utils.machine import require
from onepos.exceptions import OneposError, StudyError
from onepos_studies.datasets._fetch import data_folder
from onepos_studies.study.cells import Cell, data_set
from onepos_studies.study.execute import Row, failed_row, run_cells
from onepos_studies.study.folder import ResultsFolder
from onepos_studies.study.spec import Parameters

#: Seconds after which an address counts as unreachable, and between checks of a silent cluster.
PATIENCE = 5.0

#: The error of a cell whose workers died each time.
DIED = "each worker that ran this cell died, perhaps out of memory; the worker's log may say why"

#: Cells for one worker, and the setting that each takes over, if it does.
Task = tuple[list[Cell], list[Parameters | None]]


class Unfit(NamedTuple):
    """A worker's answer in place of rows: the worker cannot run these cells, another one may."""

    worker: str
    host: str
    reason: str


@contextmanager
def open_cluster(address: str | None = None, jobs: int | None = None) -> Iterator["Cluster"]:
    """Connect to the scheduler at ``address``; without one, start ``jobs`` workers (one per core) on this machine."""
    distributed = require("distributed", extra="dask", purpose="--backend dask")
    if address is None:
        with (
            distributed.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as local,
            distributed.Client(local, set_as_default=False) as client,
        ):
            yield Cluster(client, "the Dask cluster of this machine")
        return
    _check_reachable(address)
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise StudyError(f"no Dask scheduler answers at {address} ({error}); check --address.") from error
    with client:
        yield Cluster(client, f"the Dask cluster at {address}")


def _check_reachable(address: str) -> None:
    # The client itself retries for a long time before it gives up.
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        if not parts.hostname:
            raise ValueError("it names no host")
        socket.create_connection((parts.hostname, parts.port or 8786), timeout=PATIENCE).close()
    except (OSError, ValueError) as error:
        raise StudyError(
            f"nothing answers at {address} ({error}); check --address, and that the cluster runs and can be reached."
        ) from error


class Cluster:
    """The workers of a scheduler, whichever they are at the moment; ``where`` is the cluster in words, for messages.

    joblib's Dask backend is not used, because a cell must avoid the workers that cannot load its data.
    """

    def __init__(self, client: Any, where: str) -> None:
        self.client, self.where = client, where
        #: Workers that cannot run the cells of a data set, by data set.
        self.unfit: defaultdict[str, set[str]] = defaultdict(set)
        #: Tasks under way, and the workers that may run each; None: any worker.
        self.waiting: dict[Any, tuple[Task, frozenset[str] | None]] = {}
        self.finished: SimpleQueue[Any] = SimpleQueue()

    def run(
        self, tasks: list[Task], folder: ResultsFolder, notice: Callable[[str], None]
    ) -> Generator[Row, None, None]:
        """Yield rows as they come. All tasks are submitted at once, so that workers that join later find work.

        Dask starts a task again when its worker dies. A cell fails if its workers died again and again, or if no
        present worker can run it.
        """
        folder = ResultsFolder(folder.path.resolve())
        try:
            for task in tasks:
                self._submit(task, folder)
            if not self.workers():
                notice(f"{self.where} has no worker yet; waiting for one")
            while self.waiting:
                future = self._next_finished(folder)
                task, _ = self.waiting.pop(future)
                answer = self._answer(future)
                if isinstance(answer, Unfit):
                    unfit = self.unfit[task[0][0].dataset]
                    if answer.worker not in unfit:
                        notice(f"worker {answer.worker} on {answer.host} {answer.reason}")
                    unfit.add(answer.worker)
                    if not self.workers() <= unfit:
                        self._submit(task, folder)
                        continue
                    answer = f"no worker can run this cell; the last one {answer.reason}"
                if isinstance(answer, str):
                    for cell in task[0]:
                        yield failed_row(cell, answer)
                else:
                    yield from answer
        finally:
            self.cancel(list(self.waiting))
            self.waiting.clear()

    def workers(self) -> frozenset[str]:
        """Return the addresses of the present workers."""
        return frozenset(self.client.nthreads())

    def submit(self, name: str, fit: frozenset[str] | None, *arguments: Any) -> Any:
        """Return the future of ``work_on_cluster`` on one of the ``fit`` workers; None: on any worker."""
        key = f"{name}-{uuid4().hex}"  # new each time: the scheduler must not answer with an earlier attempt
        return self.client.submit(work_on_cluster, *arguments, key=key, pure=False, workers=fit and sorted(fit))

    def cancel(self, futures: list[Any]) -> None:
        """Take tasks back; a task that has begun is finished in vain."""
        if futures and self.is_connected():
            self.client.cancel(futures, force=True)

    def is_death(self, error: BaseException) -> bool:
        """Return whether the scheduler gave a task up because each worker that had it died."""
        from distributed import KilledWorker

        return isinstance(error, KilledWorker)

    def is_connected(self) -> bool:
        """Return whether the scheduler is there."""
        return str(self.client.status) == "running"

    def _submit(self, task: Task, folder: ResultsFolder) -> None:
        cells, choices = task
        unfit = frozenset(self.unfit[cells[0].dataset])
        fit = self.workers() - unfit if unfit else None
        future = self.submit(cells[0].id, fit, cells, choices, folder)
        self.waiting[future] = task, fit
        future.add_done_callback(self.finished.put)

    def _next_finished(self, folder: ResultsFolder) -> Any:
        while True:
            try:
                future = self.finished.get(timeout=PATIENCE)
            except Empty:
                if not self.is_connected():
                    raise self._gone() from None
                self._submit_stranded(folder)
            else:
                if future in self.waiting:
                    return future

    def _submit_stranded(self, folder: ResultsFolder) -> None:
        """Submit tasks again whose permitted workers have all left."""
        there = self.workers()
        stranded = [future for future, (_, fit) in self.waiting.items() if fit is not None and not fit & there]
        self.cancel(stranded)
        for future in stranded:
            self._submit(self.waiting.pop(future)[0], folder)

    def _answer(self, future: Any) -> list[Row] | Unfit | str:
        try:
            return cast("list[Row] | Unfit", future.result())
        except Exception as error:
            if self.is_death(error):
                return DIED
            if not self.is_connected():
                raise self._gone() from error
            raise StudyError(
                f"{self.where} could not run a cell: {type(error).__name__}: {error} Workers need the same onepos and "
                "packages as the runner. Finished cells are stored; the same command runs the rest."
            ) from error

    def _gone(self) -> StudyError:
        return StudyError(f"{self.where} is gone. Finished cells are stored; the same command runs the rest.")


def work_on_cluster(cells: list[Cell], choices: list[Parameters | None], folder: ResultsFolder) -> list[Row] | Unfit:
    """In a worker, return the rows of cells from ``run_together``, which the runner stores, or why it cannot."""
    worker, threads = _this_worker()
    if reason := _unfit(cells[0], threads):
        return Unfit(worker, socket.gethostname(), reason)
    if folder.is_within_reach():
        for cell in cells:
            folder.note_start(cell)
    return run_cells(cells, choices)


def _this_worker() -> tuple[str, int]:
    """Return the address and the number of threads of the worker in which this is called."""
    from distributed import get_worker

    worker: Any = get_worker()
    return worker.address, worker.state.nthreads


def _unfit(cell: Cell, threads: int) -> str:
    if threads > 1:
        return (
            f"has {threads} threads, and a cell needs a process to itself: start it with --nthreads 1, and "
            "--nworkers for several side by side."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data_set(cell.source)
    except (OneposError, OSError) as error:
        if cell.file:
            return f"cannot load {cell.dataset}: {error} Workers need the data file at the same path as the runner."
        name = cell.source.name
        return (
            f"cannot load {name} (its data folder is {data_folder()}): {error} Set ONEPOS_DATA, where the worker "
            f"is started, to a folder that it can read and that has the data set (`onepos datasets fetch {name}`)."
        )
    return ""

"""Where the cells of a study run when this machine is not enough: the workers of a Dask or a Ray cluster."""

import socket
import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from onepos.datasets._cache import data_folder
from onepos.exceptions import OneposError, StudyError
from onepos.study.cells import Cell, data_set
from onepos.study.execute import Row, run_cells
from onepos.study.folder import ResultsFolder
from onepos.study.spec import Parameters

#: The names that ``--backend`` takes.
BACKENDS = ("loky", "dask", "ray")

#: Seconds after which an address counts as unreachable.
PATIENCE = 5.0

#: How often an engine starts a cell again whose worker died, before the cell counts as failed.
RETRIES = 3


class Worker(NamedTuple):
    """A worker as it describes itself: the name by which its engine can avoid it, and its threads."""

    name: str
    threads: int


class Engine(ABC):
    """A cluster that runs calls and hands out futures; tries again by itself when a worker dies.

    joblib's own backends for Dask and Ray are not used: a row must be stored when its cell is done, and that for Ray
    returns no result before the last (``supports_return_generator`` is False); and a cell must be able to avoid workers
    that cannot load its data.
    """

    def __init__(self, where: str) -> None:
        #: The cluster in words, for messages.
        self.where = where
        #: Workers that cannot run cells of a data set, by data set.
        self.unfit: defaultdict[str, set[str]] = defaultdict(set)

    @abstractmethod
    def submit(self, name: str, avoid: frozenset[str], function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a future (``add_done_callback``, ``result``) of a call on any worker that is not to be avoided."""

    @abstractmethod
    def cancel(self, futures: list[Any]) -> None:
        """Give up calls that nobody waits for any more."""

    @abstractmethod
    def workers(self) -> frozenset[str]:
        """Return the names of the workers that are there now."""

    def is_stranded(self, future: Any) -> bool:
        """Tell whether a call waits for workers of which none is there any more."""
        return False

    @abstractmethod
    def is_death(self, error: BaseException) -> bool:
        """Tell whether an error of a future says that its workers died, again and again."""

    @abstractmethod
    def is_connected(self) -> bool:
        """Tell whether the cluster can still be reached."""

    @staticmethod
    @abstractmethod
    def this_worker() -> Worker:
        """Describe the worker in which this is called."""


@contextmanager
def open_engine(backend: str, address: str | None = None, jobs: int | None = None) -> Iterator[Engine | None]:
    """Connect to a cluster, or start one on this machine; None for ``"loky"``, which needs none.

    Parameters
    ----------
    backend : "loky", "dask" or "ray"
    address : of the cluster; None starts one on this machine and ends it afterwards
    jobs : processes of a cluster on this machine; None for one a core
    """
    if backend not in BACKENDS:
        raise StudyError(f"--backend must be one of {', '.join(BACKENDS)}; got {backend!r}.")
    if backend == "loky":
        if address is not None:
            raise StudyError("--address needs --backend dask or --backend ray; loky runs on this machine only.")
        yield None
        return
    if address is not None and jobs is not None:
        raise StudyError(
            "--jobs counts processes on this machine; a cluster at an --address has the workers that it was given."
        )
    with _connect(backend, address, jobs) as engine:
        yield engine


def _connect(backend: str, address: str | None, jobs: int | None) -> AbstractContextManager[Engine]:
    if backend == "dask":
        from onepos.study.dask_engine import dask_engine

        return dask_engine(address, jobs)
    from onepos.study.ray_engine import ray_engine

    return ray_engine(address, jobs)


def reach(address: str, default_port: int) -> None:
    """Raise StudyError unless something listens at ``[scheme://]host[:port]``."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port or default_port
        if not host:
            raise ValueError("it names no host")
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except (OSError, ValueError) as error:
        raise StudyError(
            f"nothing answers at {address} ({error}); check --address, and that the cluster runs and can be reached."
        ) from error


# What a worker of a cluster does with cells: see that it can run them here, then run them as a local process would.


class Unfit(NamedTuple):
    """A worker's answer instead of rows: it is the wrong place for these cells, which are none the worse for it."""

    worker: str
    host: str
    reason: str


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread whatever runs beside: cores are not oversubscribed, and bits do not depend on where."""
    from threadpoolctl import threadpool_limits

    from onepos.training.machine import limited_threads

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

"""Run the cells of a study on the workers of a Dask cluster."""

import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from onepos._utils.machine import require
from onepos_studies.exceptions import StudyError
from onepos_studies.study.cells import Cell
from onepos_studies.study.execute import Row, failed_row, run_cells
from onepos_studies.study.folder import ResultsFolder
from onepos_studies.study.spec import Parameters

#: Seconds after which an address counts as unreachable.
PATIENCE = 5.0

#: Cells for one worker, and the setting that each takes over, if it does.
Task = tuple[list[Cell], list[Parameters | None]]


@contextmanager
def open_cluster(address: str | None = None, jobs: int | None = None) -> Iterator[Any]:
    """Connect to the scheduler at ``address``; without one, start ``jobs`` workers (one per core) on this machine."""
    distributed = require("distributed", extra="dask", purpose="--backend dask", package="onepos-studies")
    if address is None:
        with (
            distributed.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as local,
            distributed.Client(local, set_as_default=False) as client,
        ):
            yield client
        return
    _check_reachable(address)
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise StudyError(f"no Dask scheduler answers at {address} ({error}); check --address.") from error
    with client:
        yield client


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


def run_on_cluster(
    client: Any, tasks: list[Task], folder: ResultsFolder, notice: Callable[[str], None]
) -> Generator[Row, None, None]:
    """Yield rows as they come; Dask gives the cells of a worker that dies to others, several times.

    All tasks are submitted at once, so that workers that join later find work.
    """
    from distributed import KilledWorker, as_completed

    workers = client.nthreads()
    if not workers:
        notice("the Dask cluster has no worker yet; waiting for one")
    if any(threads > 1 for threads in workers.values()):
        raise StudyError("a cell needs a process to itself: start the Dask workers with --nthreads 1.")
    folder = ResultsFolder(folder.path.resolve())
    # A new key each time: the scheduler must not answer with an earlier attempt.
    futures = {
        client.submit(_work, *task, folder, key=f"{task[0][0].id}-{uuid4().hex}", pure=False): task[0] for task in tasks
    }
    try:
        for future in as_completed(futures, loop=client.loop):
            try:
                yield from future.result()
            except KilledWorker:
                for cell in futures[future]:
                    yield failed_row(cell, "each worker that ran this cell died, perhaps out of memory; see its log")
            except Exception as error:
                raise StudyError(
                    f"the Dask cluster could not run a cell: {type(error).__name__}: {error} Workers need the same "
                    "packages as the runner. Finished cells are stored; the same command runs the rest."
                ) from error
    finally:
        if client.status == "running":
            client.cancel(list(futures), force=True)


def _work(cells: list[Cell], choices: list[Parameters | None], folder: ResultsFolder) -> list[Row]:
    """In a worker, return the rows of cells from ``run_together``, which the runner stores."""
    if folder.is_within_reach():
        for cell in cells:
            folder.note_start(cell)
    return run_cells(cells, choices)

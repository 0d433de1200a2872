"""Run the cells of a study on the workers of a Dask cluster."""

import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from onepos._utils.machine import require
from onepos_studies.exceptions import StudyError
from onepos_studies.study.execute import Row, Task, failed_row, run_noted
from onepos_studies.study.folder import ResultsFolder

#: Seconds after which an address counts as unreachable.
PATIENCE = 5.0


@contextmanager
def open_cluster(address: str) -> Iterator[Any]:
    """Connect to the scheduler at ``address``."""
    distributed = require("distributed", extra="dask", purpose="--cluster", package="onepos-studies")
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        if not parts.hostname:
            raise ValueError("it names no host")
        # The client itself retries for a long time before it gives up.
        socket.create_connection((parts.hostname, parts.port or 8786), timeout=PATIENCE).close()
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise StudyError(
            f"no Dask scheduler answers at {address} ({error}); check --cluster, and that the scheduler runs."
        ) from error
    with client:
        yield client


def run_on_cluster(
    client: Any, tasks: list[Task], folder: ResultsFolder, log: Callable[[str], None]
) -> Generator[Row, None, None]:
    """Yield rows as they come; Dask gives the cells of a worker that dies to others, several times.

    All tasks are submitted at once, so that workers that join later find work. joblib's own Dask backend waits forever
    for a task whose workers died.
    """
    from distributed import KilledWorker, as_completed

    workers = client.nthreads()
    if not workers:
        log("the Dask cluster has no worker yet; waiting for one")
    if any(threads > 1 for threads in workers.values()):
        raise StudyError("a cell needs a process to itself: start the Dask workers with --nthreads 1.")
    folder = ResultsFolder(folder.path.resolve())
    # A new key each time: the scheduler must not answer with an earlier attempt.
    futures = {
        client.submit(run_noted, task, folder, key=f"{task[0][0].id}-{uuid4().hex}", pure=False): task for task in tasks
    }
    try:
        for future in as_completed(futures, loop=client.loop):
            try:
                yield from future.result()
            except KilledWorker:
                for cell in futures[future][0]:
                    yield failed_row(cell, "each worker that ran this cell died, perhaps out of memory; see its log")
            except Exception as error:
                raise StudyError(
                    f"the Dask cluster could not run a cell: {type(error).__name__}: {error} Workers need the same "
                    "packages as the runner. Finished cells are stored; the same command runs the rest."
                ) from error
    finally:
        if client.status == "running":
            client.cancel(list(futures), force=True)

"""Cells on the workers of a Dask cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from onepos._utils.optional import require
from onepos.exceptions import StudyError
from onepos.study.engine import PATIENCE, Engine, Worker, reach

_PORT = 8786


class DaskEngine(Engine):
    """The workers of a scheduler, whichever they are at the moment."""

    def __init__(self, client: Any, where: str) -> None:
        super().__init__(where)
        self.client = client
        self.restricted: dict[str, frozenset[str]] = {}

    def submit(self, name: str, avoid: frozenset[str], function: Callable[..., Any], *arguments: Any) -> Any:
        """Let the scheduler choose among all workers, or among those of this moment if some must be avoided."""
        key = f"{name}-{uuid4().hex}"  # new each time: the scheduler must not answer with an earlier attempt
        fit = None
        if avoid:
            fit = self.restricted[key] = self.workers() - avoid
        return self.client.submit(function, *arguments, key=key, pure=False, workers=fit and sorted(fit))

    def cancel(self, futures: list[Any]) -> None:
        """Take the calls back; one that has begun is finished in vain."""
        if futures and self.is_connected():
            self.client.cancel(futures, force=True)

    def workers(self) -> frozenset[str]:
        """Return the addresses of the workers."""
        return frozenset(self.client.nthreads())

    def is_stranded(self, future: Any) -> bool:
        """Tell whether every worker to which a call was restricted has gone."""
        restricted = self.restricted.get(future.key)
        return restricted is not None and not restricted & self.workers()

    def is_death(self, error: BaseException) -> bool:
        """Tell whether the scheduler gave a call up because each worker that had it died."""
        from distributed import KilledWorker

        return isinstance(error, KilledWorker)

    def is_connected(self) -> bool:
        """Tell whether the scheduler is there."""
        return str(self.client.status) == "running"

    @staticmethod
    def this_worker() -> Worker:
        """Return this worker's address and number of threads."""
        from distributed import get_worker

        worker: Any = get_worker()
        return Worker(worker.address, worker.state.nthreads)


@contextmanager
def dask_engine(address: str | None, jobs: int | None) -> Iterator[DaskEngine]:
    """Connect to a scheduler, or start one with a worker process a core on this machine."""
    distributed = require("distributed", extra="dask", purpose="--backend dask")
    if address is None:
        with (
            distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield DaskEngine(client, "the Dask cluster of this machine")
        return
    reach(address, _PORT)
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise StudyError(f"no Dask scheduler answers at {address} ({error}); check --address.") from error
    with client:
        yield DaskEngine(client, f"the Dask cluster at {address}")

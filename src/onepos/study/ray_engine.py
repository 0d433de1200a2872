"""Cells on the workers of a Ray cluster."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onepos._utils.optional import require
from onepos.exceptions import StudyError
from onepos.study.engine import RETRIES, Engine, Worker, reach

_PORT = 6379


class RayEngine(Engine):
    """The nodes of a Ray cluster; each call has a process and one core of its own."""

    def __init__(self, ray: Any, where: str) -> None:
        super().__init__(where)
        self.ray = ray
        self.references: dict[Any, Any] = {}

    def submit(self, name: str, avoid: frozenset[str], function: Callable[..., Any], *arguments: Any) -> Any:
        """Let Ray choose among the nodes that are not to be avoided, those that come later included."""
        fit = {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"} if avoid else None
        call = self.ray.remote(function).options(name=name, num_cpus=1, max_retries=RETRIES, label_selector=fit)
        reference = call.remote(*arguments)
        future = reference.future()
        self.references[future] = reference  # Ray gives up a call to which nothing refers
        future.add_done_callback(lambda done: self.references.pop(done, None))
        return future

    def cancel(self, futures: list[Any]) -> None:
        """Take the calls back; one that has begun is interrupted."""
        for reference in filter(None, map(self.references.get, futures)):
            self.ray.cancel(reference, force=True)

    def workers(self) -> frozenset[str]:
        """Return the identifiers of the nodes."""
        return frozenset(node["NodeID"] for node in self.ray.nodes() if node["Alive"])

    def is_death(self, error: BaseException) -> bool:
        """Tell whether Ray gave a call up because each process that had it died."""
        known = self.ray.exceptions
        return isinstance(error, known.WorkerCrashedError | known.OutOfMemoryError | known.NodeDiedError)

    def is_connected(self) -> bool:
        """Tell whether this process still takes part in the cluster."""
        return bool(self.ray.is_initialized())

    @staticmethod
    def this_worker() -> Worker:
        """Return this node's identifier; a process of Ray runs one call at a time."""
        import ray

        return Worker(ray.get_runtime_context().get_node_id(), 1)


@contextmanager
def ray_engine(address: str | None, jobs: int | None) -> Iterator[RayEngine]:
    """Connect to a Ray cluster, or start one on this machine; one that this process uses already is left open."""
    ray = require("ray", extra="ray", purpose="--backend ray")
    if ray.is_initialized():
        yield RayEngine(ray, "the Ray cluster of this process")
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a study tells nobody that it runs
        ray.init(address="local", num_cpus=jobs, include_dashboard=False, **quiet)
    else:
        if address != "auto":
            reach(address, _PORT)
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise StudyError(
                f"no Ray cluster answers at {address} ({error}); check --address, and RAY_AUTH_MODE and "
                "RAY_AUTH_TOKEN if the cluster asks for a token."
            ) from error
    try:
        yield RayEngine(ray, "the Ray cluster of this machine" if address is None else f"the Ray cluster at {address}")
    finally:
        ray.shutdown()

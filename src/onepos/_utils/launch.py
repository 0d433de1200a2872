"""How this process was started: alone, or by torchrun beside others."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_APART: ContextVar[bool] = ContextVar("onepos_apart", default=False)


@contextmanager
def apart() -> Iterator[None]:
    """Let every process do the work inside on its own: for small fits that all of them repeat."""
    before = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(before)


def launched() -> bool:
    """Whether torchrun started this process beside others. Workers that such a process starts in turn stand alone."""
    return (
        not _APART.get()
        and "TORCHELASTIC_RUN_ID" in os.environ
        and int(os.environ.get("WORLD_SIZE", "1")) > 1
        and multiprocessing.parent_process() is None
    )


def launched_rank() -> int:
    """Return the number of this process among those that torchrun started; 0 without others."""
    return int(os.environ["RANK"]) if launched() else 0

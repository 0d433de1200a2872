"""A time limit and a progress report that any loop inside ``fit`` can ask for.

``auto`` promises to end in time. It sets the limit here, and every long loop asks ``time_left()``: the solver of a
linear model, the trees of a forest, the batches of a network. A loop that runs out of time keeps what it has.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float] = ContextVar("onepos_end", default=math.inf)
_LISTENER: ContextVar[Callable[[float], None] | None] = ContextVar("onepos_listener", default=None)


@contextmanager
def deadline(end: float, listener: Callable[[float], None] | None = None) -> Iterator[None]:
    """Limit the work inside to ``time.monotonic() < end``; an outer limit that is earlier still holds.

    Parameters
    ----------
    end : float
        Value of ``time.monotonic()``; ``math.inf`` for no limit.
    listener : callable, optional
        Called by ``tell`` with the share of the work inside that is done.
    """
    ended = _END.set(min(end, _END.get()))
    listened = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(listened)
        _END.reset(ended)


def time_left() -> float:
    """Seconds until the limit, infinite without one, negative after it.

    Examples
    --------
    >>> time_left()
    inf
    >>> with deadline(time.monotonic() + 60):
    ...     time_left() <= 60
    True
    """
    end = _END.get()
    return math.inf if math.isinf(end) else end - time.monotonic()


def tell(share: float) -> None:
    """Report the share of the current piece of work that is done, from 0 to 1."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(share)


@contextmanager
def stage(first: float, last: float, time_share: float = 1.0) -> Iterator[None]:
    """Run one of several pieces of work: what it tells from 0 to 1 is passed on as ``first`` to ``last``.

    Parameters
    ----------
    first, last : float
        Share of the whole that is done before and after it.
    time_share : float
        Share of the time left that it may take.
    """
    listener = _LISTENER.get()

    def passed_on(share: float) -> None:
        if listener is not None:
            listener(first + (last - first) * share)

    with deadline(time.monotonic() + time_share * time_left(), passed_on):
        yield

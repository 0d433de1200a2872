"""A time limit and a progress report that any loop inside ``fit`` can ask for.

``auto`` promises to end in time. It sets the limit here, and every long loop asks ``time_left()``: the solver of a
linear model, the trees of a forest, the batches of a network. A loop that runs out of time keeps what it has.

The same loops ``tell`` how far they are. A listener takes the name of the step and the share of the work that is done.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float] = ContextVar("onepos_end", default=math.inf)
_NOT_COUNTED: ContextVar[float] = ContextVar("onepos_not_counted", default=0.0)
#: Takes the name of a step and the share of the work that is done, from 0 to 1.
Listener = Callable[[str, float], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("onepos_listener", default=None)


@contextmanager
def deadline(end: float, listener: Listener | None = None) -> Iterator[None]:
    """Limit the work inside to ``time.monotonic() < end``; an outer limit that is earlier still holds.

    Parameters
    ----------
    end : float
        Value of ``time.monotonic()``; ``math.inf`` for no limit.
    listener : callable, optional
        Called by ``tell``. None: nobody is told.
    """
    ended = _END.set(min(end - _NOT_COUNTED.get(), _END.get()))
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
    return math.inf if math.isinf(end) else end - (time.monotonic() - _NOT_COUNTED.get())


@contextmanager
def not_counted() -> Iterator[None]:
    """Move all limits in force by the time that the work inside takes."""
    begun = time.monotonic()
    try:
        yield
    finally:
        _NOT_COUNTED.set(_NOT_COUNTED.get() + time.monotonic() - begun)


def seconds_not_counted() -> float:
    """Return the seconds spent inside ``not_counted`` so far."""
    return _NOT_COUNTED.get()


def current_listener() -> Listener | None:
    """Return who is told at the moment."""
    return _LISTENER.get()


def tell(share: float, step: str = "training") -> None:
    """Report the share of the current piece of work that is done, from 0 to 1."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(step, share)


@contextmanager
def progress_to(listener: Listener) -> Iterator[None]:
    """Report how far any ``fit`` inside is: ``listener`` is called with the name of the step and the share done.

    Examples
    --------
    >>> from onepos import ForestClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(100, 5, 4, random_state=0)
    >>> with progress_to(lambda step, share: print(f"{step} {share:.0%}")):
    ...     _ = ForestClassifier(n_trees=2, n_jobs=1, random_state=0).fit(data.X, data.observed)
    training 50%
    training 100%
    """
    with deadline(math.inf, listener):
        yield


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

    def passed_on(step: str, share: float) -> None:
        if listener is not None:
            listener(step, first + (last - first) * share)

    with deadline(time.monotonic() + time_share * time_left(), passed_on):
        yield

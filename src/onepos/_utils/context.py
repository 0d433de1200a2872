"""What surrounds a fit: a time limit, a listener to its progress, and results that are used again.

``auto`` promises to end in time. It sets a limit with ``deadline``, and every long loop asks ``time_left()``. A loop
that runs out of time keeps what it has. The same loops ``tell`` how far they are; ``stage`` gives a piece of work its
place in the whole. ``progress_to``, and ``progress_shown`` in ``progress.py``, name the listener.

A study fits many methods and settings on the same rows. Inside ``remember_work``, ``recall`` computes a result once.
"""

import hashlib
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar, cast

import numpy as np

#: Takes the name of a step and the share of the work that is done, from 0 to 1.
Listener = Callable[[str, float], None]

_Value = TypeVar("_Value")
_END: ContextVar[float] = ContextVar("onepos_end", default=math.inf)
_NOT_COUNTED: ContextVar[float] = ContextVar("onepos_not_counted", default=0.0)
_QUIET: ContextVar[tuple[tuple[type[Warning], str], ...]] = ContextVar("onepos_quiet", default=())
_FILTERS = threading.RLock()
_LISTENER: ContextVar[Listener | None] = ContextVar("onepos_listener", default=None)
_COMMAND_LINE: ContextVar[bool] = ContextVar("onepos_command_line", default=False)


@contextmanager
def setting(variable: ContextVar[_Value], value: _Value) -> Iterator[None]:
    """Give a variable a value in the body."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def deadline(end: float) -> AbstractContextManager[None]:
    """Limit the work inside to ``time.monotonic() < end``; an earlier outer limit still holds."""
    return setting(_END, min(end - _NOT_COUNTED.get(), _END.get()))


def time_left() -> float:
    """Seconds until the limit, infinite without one, negative after it."""
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


def on_command_line() -> AbstractContextManager[None]:
    """Let messages of the body name the options of the command line."""
    return setting(_COMMAND_LINE, True)


def option(name: str, value: str = "") -> str:
    """Return how the user gives an option, for a message: ``--embed VALUE`` in a command, ``embed="VALUE"`` in Python.

    Examples
    --------
    >>> option("embed", "small")
    'embed="small"'
    """
    if _COMMAND_LINE.get():
        return f"--{name.replace('_', '-')} {value}".strip()
    return f'{name}="{value}"' if value else name


@contextmanager
def quiet(category: type[Warning], text: str = "") -> Iterator[None]:
    """Leave out warnings of ``warn`` in the body that have ``text``.

    Filters of the module ``warnings`` belong to the whole process: two threads that set and reset them leave them set.
    """
    with setting(_QUIET, (*_QUIET.get(), (category, text))):
        yield


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """Warn, unless somebody around said ``quiet``; ``stacklevel`` as for ``warnings.warn`` in the place of the call."""
    if not any(issubclass(category, kind) and text in message for kind, text in _QUIET.get()):
        warnings.warn(message, category, stacklevel=stacklevel + 1)


@contextmanager
def other_warnings(action: Literal["ignore", "error"], category: type[Warning] = Warning) -> Iterator[None]:
    """Silence warnings of other packages in the body, or make errors of them; one thread at a time."""
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter(action, category)
        yield


#: Return the seconds spent inside ``not_counted`` so far.
seconds_not_counted = _NOT_COUNTED.get
#: Return the listener that ``tell`` calls now.
current_listener = _LISTENER.get


def tell(share: float, step: str = "training") -> None:
    """Report the share of the current piece of work that is done, from 0 to 1."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(step, share)


def limit_lifted() -> AbstractContextManager[None]:
    """Ignore outer limits in the body, for work that got the time left as a limit of its own."""
    return setting(_END, math.inf)


def progress_to(listener: Listener | None) -> AbstractContextManager[None]:
    """Report how far any ``fit`` inside is: ``listener`` is called with the name of the step and the share done.

    What stands behind the first comma of a name may change often.

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
    return setting(_LISTENER, listener)


@contextmanager
def stage(first: float, last: float, time_share: float = 1.0) -> Iterator[None]:
    """Run one of several pieces of work, which may take a share of the time left.

    It is the part from ``first`` to ``last`` of the whole. What it tells from 0 to 1 is passed on in that range.
    """
    listener = _LISTENER.get()

    def passed_on(step: str, share: float) -> None:
        if listener is not None:
            listener(step, first + (last - first) * share)

    end = time.monotonic() + time_share * time_left() - _NOT_COUNTED.get()
    with setting(_END, min(end, _END.get())), setting(_LISTENER, passed_on):
        yield


#: Results kept in a process: a graph takes 16 bytes per row and neighbour, a linear path 8 per strength and weight.
LIMIT = 16

_memory: dict[str, Any] = {}
_enabled: ContextVar[bool] = ContextVar("remember_work", default=False)


def remember_work() -> AbstractContextManager[None]:
    """Keep what ``recall`` computes in the body for later, in any such body of this process."""
    return setting(_enabled, True)


def recall(compute: Callable[[], _Value], what: str, *inputs: Any) -> _Value:
    """Return ``compute()``, from memory if ``what`` was computed from equal inputs within ``remember_work``.

    Inputs are arrays, sparse matrices, or values that ``repr`` describes completely. The result is read-only.
    """
    if not _enabled.get():
        return compute()
    key = " ".join([what, *map(fingerprint, inputs)])
    result: Any = _memory.pop(key, None)
    if result is None:
        result = _read_only(compute())
    _memory[key] = result  # at the end: what was not used for longest is dropped first
    while len(_memory) > LIMIT:
        _memory.pop(next(iter(_memory)), None)
    return cast(_Value, result)


def _read_only(result: Any) -> Any:
    for array in result if isinstance(result, tuple | list) else [result]:
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    return result


def fingerprint(value: Any) -> str:
    """Hash shape, type and numbers of an array, in any memory order, or sparse matrix; else return the ``repr``."""
    if not hasattr(value, "indptr") and not isinstance(value, np.ndarray):
        return repr(value)
    parts = [value.data, value.indices, value.indptr] if hasattr(value, "indptr") else [value]
    described = repr((value.shape, [(part.dtype.str, part.shape) for part in parts]))
    state = hashlib.blake2b(described.encode(), digest_size=16)
    for part in parts:
        state.update(np.ascontiguousarray(part).data)
    return state.hexdigest()

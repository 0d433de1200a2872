"""SIGTERM and SIGHUP end a command as Ctrl-C does: what is half written is cleared away, worker processes end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """Somebody asked the process to end; not KeyboardInterrupt, at which training stops and keeps what it has."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        #: The exit code that shells use for a process that ended by this signal.
        self.code = 128 + number


@contextmanager
def orderly_end() -> Iterator[None]:
    """Raise ``Terminated`` in the body when the process is asked to end; a signal that has a handler keeps it."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    # One that is ignored stays so: `nohup` wants it.
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # asked twice, it ends at once
    raise Terminated(number)

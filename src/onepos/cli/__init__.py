"""The command line ``onepos``: ``main`` is its entry point, and signals end it in order. One file per command."""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 1 internal error, 2 bad usage or input, 130 Ctrl-C, 143 SIGTERM."""
    try:
        # Not at the top: a plain install has neither typer nor rich, and says so in one line.
        from onepos.cli.run import run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        sys.stderr.write(f'the command line needs {package}, which is not installed: pip install "onepos[cli]"\n')
        sys.exit(2)
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


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

"""The command line ``onepos``: from arguments to an exit code. Each command has its own file."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import entry_points
from types import FrameType
from typing import Any, NoReturn

from onepos import __version__
from onepos._utils.context import on_command_line
from onepos._utils.machine import launched, launched_rank
from onepos.exceptions import LostProcessError, OneposError

__all__ = ["main"]

_HELP = "Complete the tags of a table in which every row has one tag although several apply. Start: onepos demo"
SUCCESS, INTERNAL_ERROR, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

#: Commands of the distribution onepos-studies. Any package can register a typer app as an entry point
#: ``onepos.commands``, under the name of its command.
_IN_STUDIES = ("bench", "datasets")

#: Seconds that a process waits with its message for process 0 to come to the same end: torchrun then stops it.
_FIRST_SPEAKS = 5.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 1 internal error, 2 bad usage or input, 130 Ctrl-C, 143 SIGTERM."""
    arguments = (sys.argv[1:] if arguments is None else list(arguments)) or ["--help"]
    # A stream that the shell closed is None.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shows a question mark. The command goes on.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    with one_line_errors():
        from typer.main import get_command  # not at the top: a plain install has neither typer nor rich

        command = arguments[0]
        if launched() and command != "fit":
            raise OneposError("torchrun starts several processes, and only `onepos fit` shares work among them.")
        if command in _IN_STUDIES and not entry_points(group="onepos.commands", name=command):
            raise OneposError(f"`onepos {command}` is in another package: pip install onepos-studies")
        with orderly_end(), on_command_line():
            if command == "--version":
                sys.stdout.write(f"onepos {__version__}\n")
                sys.exit(SUCCESS)
            code = get_command(commands()).main(args=arguments, prog_name="onepos", standalone_mode=False)
            sys.stdout.flush()
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
    sys.exit(code if isinstance(code, int) else SUCCESS)


@cache
def commands() -> Any:
    """Return the tree of commands, a ``typer.Typer``."""
    import typer

    from onepos.cli import calibrate, complete, demo, doctor, evaluate, fit, options, predict

    app = typer.Typer(name="onepos", help=_HELP, epilog="`onepos --version` shows the version.")
    options.add(app, demo.demo)
    options.add(app, doctor.doctor, doctor.EXAMPLES)
    options.add(app, fit.fit, fit.EXAMPLES)
    options.add(app, evaluate.evaluate, evaluate.EXAMPLES)
    options.add(app, calibrate.ask, calibrate.ASK_EXAMPLES)
    options.add(app, calibrate.check_tags, calibrate.CHECK_EXAMPLES)
    options.add(app, calibrate.calibrate, calibrate.EXAMPLES)
    options.add(app, predict.predict, predict.EXAMPLES)
    options.add(app, complete.complete, complete.EXAMPLES)
    options.add(app, doctor.methods)
    for point in sorted(entry_points(group="onepos.commands"), key=lambda point: point.name):
        app.add_typer(point.load(), name=point.name)
    return app


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Exit with the code that an error of the body deserves, after one line about it on standard error."""
    try:
        yield
    except Terminated as end:
        sys.stderr.write(f"onepos: ended by {end}.\n")
        sys.exit(end.code)
    except (BrokenPipeError, SystemExit):
        # The reader (head, less) has seen enough; rich and typer turn that into SystemExit, and into nothing else.
        # Python would complain again when it closes the stream.
        with suppress(OSError):  # a stream that is no file needs nothing
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(SUCCESS)
    except LostProcessError as error:
        sys.stderr.write(f"onepos: {_one_line(error)}\n")
        sys.exit(INTERNAL_ERROR)
    except (OneposError, OSError, MemoryError) as error:
        _complain(_one_line(error), BAD_INPUT)
    except KeyboardInterrupt:
        _complain("interrupted.", INTERRUPTED)
    except Exception as error:
        package = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and package in ("typer", "rich"):
            sys.stderr.write(f'the command line needs {package}, which is not installed: pip install "onepos[cli]"\n')
            sys.exit(BAD_INPUT)
        import typer

        if isinstance(error, typer.Abort):
            _complain("interrupted.", INTERRUPTED)
        if hasattr(error, "format_message"):  # what typer raises for bad usage, wherever its version defines it
            _complain(_usage(error), BAD_INPUT)
        traceback.print_exc()
        _complain("this is an internal error of onepos; please report it with the lines above.", INTERNAL_ERROR)


def _complain(message: str, code: int) -> NoReturn:
    """Write a line and exit."""
    if launched_rank():
        # Wrong arguments are wrong for all processes. Process 0 reports them first.
        time.sleep(_FIRST_SPEAKS)
        message = f"process {launched_rank()}: {message}"
    sys.stderr.write(f"onepos: {message}\n")
    sys.exit(code)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "onepos"
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    stop = "" if message.endswith("?") else "."
    return f"{message}{stop} Try: {command} --help"


class Terminated(BaseException):
    """Somebody asked the process to end; not KeyboardInterrupt, at which training stops and keeps what it has."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        #: The exit code that shells use for a process that ended by this signal.
        self.code = 128 + number


@contextmanager
def orderly_end() -> Iterator[None]:
    """Raise ``Terminated`` in the body when the process is asked to end; a signal that has a handler keeps it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    ours = []
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # A signal that is ignored stays ignored: `nohup` wants it.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
            ours.append(number)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    raise Terminated(number)

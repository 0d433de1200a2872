"""From arguments to an exit code: the one place where errors become lines on standard error."""

import os
import sys
import traceback
from typing import Any

import typer

from onepos.cli._app import app
from onepos.cli._signals import Terminated, orderly_end
from onepos.exceptions import OneposError

SUCCESS, INTERNAL_ERROR, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code, whatever happens in it."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shall show a question mark, not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        with orderly_end():
            code = typer.main.get_command(app).main(args=arguments, prog_name="onepos", standalone_mode=False)
            sys.stdout.flush()
    except Terminated as end:
        return _complain(f"ended by {end}.", end.code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader (head, less) has seen enough; rich and typer turn that into SystemExit, and into nothing else.
        # Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except (OneposError, OSError) as error:
        return _complain(_one_line(error), BAD_INPUT)
    except Exception as error:
        if hasattr(error, "format_message"):  # what typer raises for bad usage, wherever its version defines it
            return _complain(_usage(error), BAD_INPUT)
        traceback.print_exc()
        return _complain("this is an internal error of onepos; please report it with the lines above.", INTERNAL_ERROR)
    if code == INTERRUPTED:
        return _complain("interrupted.", INTERRUPTED)
    return code if isinstance(code, int) else SUCCESS


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"onepos: {message}\n")
    return code


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "onepos"
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    return f"{message}. Try: {command} --help"

"""The tree of commands, and from arguments to an exit code: errors become one line on standard error."""

import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer

from onepos import __version__
from onepos._utils.machine import launched, launched_rank
from onepos.cli import Terminated, bench, complete, datasets, doctor, evaluate, fit, orderly_end, predict
from onepos.cli.demo import demo
from onepos.cli.options import expanded
from onepos.cli.output import print_line
from onepos.exceptions import LostProcessError, OneposError

SUCCESS, INTERNAL_ERROR, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

#: Seconds that a process waits with its message for process 0 to come to the same end: torchrun then stops it.
_FIRST_SPEAKS = 5.0

app = typer.Typer(
    name="onepos",
    help="Multi-label classification when every training example carries one positive label and nothing else.",
    pretty_exceptions_enable=False,
)


def _add(name: str, command: Callable[..., None], examples: str) -> None:
    """Add a command with its examples; the lines of its text are joined, as they were cut to the source's width."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    app.command(name, help="\n\n".join(" ".join(part.split()) for part in paragraphs), epilog=examples)(command)


app.command("demo")(demo)
_add("doctor", doctor.doctor, doctor.EXAMPLES)
_add("fit", expanded(fit.fit), fit.EXAMPLES)
_add("evaluate", evaluate.evaluate, evaluate.EXAMPLES)
_add("predict", predict.predict, predict.EXAMPLES)
_add("complete", expanded(complete.complete, complete.WITHOUT), complete.EXAMPLES)
app.command("methods")(doctor.methods)
app.add_typer(datasets.app, name="datasets")
app.add_typer(bench.app, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"onepos {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Multi-label classification when every training example carries one positive label and nothing else."""


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code, whatever happens in it."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shows a question mark. The command goes on.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if launched() and arguments[:1] != ["fit"]:
        return _complain(
            "only `onepos fit` shares its work among processes, and torchrun started several. Run this without "
            "torchrun.",
            BAD_INPUT,
        )
    try:
        with orderly_end():
            code = typer.main.get_command(app).main(args=arguments, prog_name="onepos", standalone_mode=False)
            sys.stdout.flush()
    except Terminated as end:
        sys.stderr.write(f"onepos: ended by {end}.\n")
        return end.code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader (head, less) has seen enough; rich and typer turn that into SystemExit, and into nothing else.
        # Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    except LostProcessError as error:
        sys.stderr.write(f"onepos: {_one_line(error)}\n")
        return INTERNAL_ERROR
    except (OneposError, OSError, MemoryError) as error:
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
    if launched_rank():
        # What is wrong with the arguments is wrong for all processes, and said once.
        time.sleep(_FIRST_SPEAKS)
        message = f"process {launched_rank()}: {message}"
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
    stop = "" if message.endswith("?") else "."
    return f"{message}{stop} Try: {command} --help"

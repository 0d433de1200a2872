"""The tree of commands."""

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from onepos import __version__
from onepos.cli import bench as _bench
from onepos.cli import complete as _complete
from onepos.cli import datasets as _datasets
from onepos.cli import demo as _demo
from onepos.cli import doctor as _doctor
from onepos.cli import doctor as _methods
from onepos.cli import evaluate as _evaluate
from onepos.cli import fit as _fit
from onepos.cli import predict as _predict
from onepos.cli.output import print_line

app = typer.Typer(
    name="onepos",
    help="Multi-label classification when every training example carries one positive label and nothing else.",
    pretty_exceptions_enable=False,
)
app.command("demo")(_demo.demo)


def _add(name: str, command: Callable[..., None], examples: str) -> None:
    """Add a command with its examples; the lines of its text are joined, as they were cut to the source's width."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    app.command(name, help="\n\n".join(" ".join(part.split()) for part in paragraphs), epilog=examples)(command)


_add("doctor", _doctor.doctor, _doctor.EXAMPLES)
_add("fit", _fit.fit, _fit.EXAMPLES)
_add("evaluate", _evaluate.evaluate, _evaluate.EXAMPLES)
_add("predict", _predict.predict, _predict.EXAMPLES)
_add("complete", _complete.complete, _complete.EXAMPLES)
app.command("methods")(_methods.methods)
app.add_typer(_datasets.app, name="datasets")
app.add_typer(_bench.app, name="bench")


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

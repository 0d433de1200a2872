"""The tree of commands."""

from typing import Annotated

import typer

from onepos import __version__
from onepos.cli import _bench, _datasets, _demo, _methods
from onepos.cli._output import print_line

app = typer.Typer(
    name="onepos",
    help="Multi-label classification when every training example carries one positive label and nothing else.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(_demo.demo)
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

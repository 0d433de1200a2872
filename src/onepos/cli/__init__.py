"""The command line ``onepos``: ``main`` is its entry point. The commands are in one file a group."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 1 internal error, 2 bad usage or input, 130 Ctrl-C, 143 SIGTERM.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
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

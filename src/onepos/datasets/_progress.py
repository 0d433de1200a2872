"""A progress bar for downloads, on standard error."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from onepos.datasets._download import Progress


@contextmanager
def progress_bar(label: str, total: int, shown: bool) -> Iterator[Progress]:
    """Yield a function that takes the number of bytes so far.

    Shown when asked for, when rich is installed, and when standard error is a terminal (or
    ``FORCE_COLOR`` says to treat it as one): a log file is no place for a bar.

    Parameters
    ----------
    label : str
    total : int
        Bytes of the whole file.
    shown : bool
    """
    if not shown or not (sys.stderr.isatty() or os.environ.get("FORCE_COLOR")):
        yield lambda done, /: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        yield lambda done, /: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, /: bar.update(task, completed=done)

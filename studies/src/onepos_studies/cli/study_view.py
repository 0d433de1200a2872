"""The progress of a study on standard error: a live view on a terminal, a line per cell elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from onepos_studies.study import Observer, ResultsFolder, Study

#: Cells that the live view shows.
_LAST = 8


@contextmanager
def study_view(folder: ResultsFolder) -> Iterator[Observer]:
    """Yield the observer that suits standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    view = LiveView(folder)
    with Live(view, console=console, refresh_per_second=2):
        yield view


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)  # the clock may have been set back
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _left(started: float, here: int, rest: int) -> str:
    """Estimate the time left from the cells finished in this run; a question mark before the first."""
    return _duration((time.monotonic() - started) / here * rest) if here else "?"


class Lines(Observer):
    """A line per cell, for logs."""

    def on_begin(self, study: Study, done: int, failed: int, total: int) -> None:
        """Write how many cells are done."""
        self.started, self.before = time.monotonic(), done
        again = f", {failed} failed before and are tried again" if failed else ""
        self.on_notice(f"study {study.name} ({study.content_hash}): {done} of {total} cells done{again}")

    def on_cell(self, row: dict[str, Any], done: int, failed: int, total: int) -> None:
        """Write the outcome of a cell."""
        left = _left(self.started, done + failed - self.before, total - done - failed)
        self.on_notice(f"[{done + failed}/{total}, {left} left] {outcome(row)}")

    def on_notice(self, text: str) -> None:
        """Write a notice."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def outcome(row: dict[str, Any]) -> str:
    """One line about a finished cell."""
    name = f"{row['dataset']} {row['method']} {row['selection']} trial {row['trial']}"
    if row["status"] != "ok":
        return f"{name}: FAILED {row['error']}"
    return f"{name}: average precision {row['average_precision']:.4f}, {row['seconds']:.1f} s"


class LiveView(Observer):
    """Counts, a bar, time left, what is running and the last few cells, repainted in place."""

    def __init__(self, folder: ResultsFolder) -> None:
        self.folder = folder
        self.last: list[Text] = []
        self.name, self.counts, self.started, self.before = "", (0, 0, 0), 0.0, 0

    def on_begin(self, study: Study, done: int, failed: int, total: int) -> None:
        """Show how many cells are done; failed ones are tried again."""
        self.name, self.counts, self.started, self.before = study.name, (done, 0, total), time.monotonic(), done

    def on_cell(self, row: dict[str, Any], done: int, failed: int, total: int) -> None:
        """Add a line and move the bar."""
        self.counts = (done, failed, total)
        self.on_notice(outcome(row), "" if row["status"] == "ok" else "red")

    def on_notice(self, text: str, style: str = "yellow") -> None:
        """Add a line."""
        self.last = [*self.last, Text(text, style=style, overflow="ellipsis", no_wrap=True)][-_LAST:]

    def __rich__(self) -> Group:
        done, failed, total = self.counts
        left = _left(self.started, done + failed - self.before, total - done - failed)
        running = [
            Text(f"running {_duration(time.time() - note['started'])}  {note['cell']}", style="cyan", no_wrap=True)
            for note in self.folder.running()
        ]
        head = f"{self.name}: {done} done, {len(running)} running, {failed} failed, of {total}; {left} left"
        # Padded, because a bar alone does not end its line.
        bar = Padding(ProgressBar(total=max(total, 1), completed=done + failed, width=60), 0)
        return Group(Text(head), bar, *self.last, *running)

"""The progress of a study on standard error: a line per finished cell."""

import sys
import time
from typing import Any

from onepos_studies.study import Observer, Study


class Lines(Observer):
    """A line per cell, with the time left; the same on a terminal and in a log."""

    def on_begin(self, study: Study, done: int, failed: int, total: int) -> None:
        """Write how many cells are done."""
        self.started, self.before = time.monotonic(), done
        again = f", {failed} failed before and are tried again" if failed else ""
        self.on_notice(f"study {study.name} ({study.content_hash}): {done} of {total} cells done{again}")

    def on_cell(self, row: dict[str, Any], done: int, failed: int, total: int) -> None:
        """Write the outcome of a cell; the time left is estimated from the cells finished in this run."""
        here, rest = done + failed - self.before, total - done - failed
        left = duration((time.monotonic() - self.started) / here * rest) if here else "?"
        self.on_notice(f"[{done + failed}/{total}, {left} left] {outcome(row)}")

    def on_notice(self, text: str) -> None:
        """Write a notice."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """Return ``3:07`` for 187 seconds, ``1:00:00`` for an hour."""
    minutes, rest = divmod(max(0, round(seconds)), 60)  # the clock may have been set back
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def outcome(row: dict[str, Any]) -> str:
    """One line about a finished cell."""
    name = f"{row['dataset']} {row['method']} {row['selection']} trial {row['trial']}"
    if row["status"] != "ok":
        return f"{name}: FAILED {row['error']}"
    return f"{name}: average precision {row['average_precision']:.4f}, {row['seconds']:.1f} s"

"""The one display of progress, for ``verbose=1`` and for the command line: a line on standard error."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size

from onepos._utils.context import current_listener, progress_to
from onepos._utils.machine import launched_rank

_BAR, _REPAINTED_AFTER = 24, 0.1  # Characters, seconds


@contextmanager
def progress_shown(title: str = "", *, keep: bool = True) -> Iterator[None]:
    """Show how far the work inside is, unless somebody listens already; ``keep`` leaves the line on the screen.

    Of the processes that torchrun started, the first one shows it.
    """
    if current_listener() is not None or launched_rank():
        yield
        return
    line = ProgressLine(title)
    try:
        with progress_to(line):
            yield
    finally:
        line.close(keep=keep)


class ProgressLine:
    """A listener: rewrites one line on a terminal; a log gets a line when a step begins and after each tenth."""

    def __init__(self, title: str = "") -> None:
        self.title = f"{title} " if title else ""
        self.live = sys.stderr.isatty()
        self.begun, self.painted = time.monotonic(), 0.0
        self.step, self.tenth = "", 0

    def __call__(self, step: str, share: float) -> None:
        """Show the name of a step and the share of the work done."""
        now, name, tenth = time.monotonic(), step.partition(",")[0], int(10 * share)
        if self.live:
            if name != self.step or share >= 1 or now - self.painted > _REPAINTED_AFTER:
                self.painted = now
                self._paint(step, share, now - self.begun)
        elif name != self.step or tenth > self.tenth:
            sys.stderr.write(f"{self.title}{share:4.0%} {step}\n")
            sys.stderr.flush()
        self.step, self.tenth = name, tenth

    def _paint(self, step: str, share: float, seconds: float) -> None:
        bar = ("█" * round(_BAR * share)).ljust(_BAR, "░")
        left = f", {seconds * (1 - share) / share:.0f} s left" if share else ""
        line = f"{self.title}{bar} {share:4.0%} {step}  {seconds:.0f} s{left}"
        # A longer line would wrap, and the next one could not replace it.
        sys.stderr.write(f"\r\x1b[2K{line[: get_terminal_size().columns - 1]}")
        sys.stderr.flush()

    def close(self, *, keep: bool) -> None:
        """End the line on a terminal, or remove it."""
        if self.live and self.painted:
            sys.stderr.write("\n" if keep else "\r\x1b[2K")
            sys.stderr.flush()

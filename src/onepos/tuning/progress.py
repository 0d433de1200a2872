"""How far tuning is, on standard error."""

import sys
from collections.abc import Callable
from typing import TextIO

from onepos.tuning.budget import Budget
from onepos.tuning.trial import Outcome


class Progress:
    """A bar over the trials with the best score so far; without a terminal, one line a trial."""

    def __init__(self, label: str, n_trials: int, budget: Budget, stream: TextIO | None = None) -> None:
        self.label, self.n_trials, self.budget = label, n_trials, budget
        self._out = stream or sys.stderr
        self._live = self._out.isatty()

    def tell(self, done: int, last: Outcome, best: tuple[int, float] | None) -> None:
        """Show how the last trial ended and which is the best."""
        filled = round(24 * done / self.n_trials)
        bar = "█" * filled + "░" * (24 - filled)
        shown = f"best {best[1]:.4f} (trial {best[0]})" if best else "none finished"
        score = f"{last.score:.4f}" if last.state == "complete" else last.state
        left = self.budget.elapsed / done * (self.n_trials - done)
        if self.budget.seconds is not None:
            left = min(left, max(0.0, self.budget.seconds - self.budget.elapsed))
        line = f"{self.label} {bar} {done}/{self.n_trials}  last {score}, {shown}  "
        line += f"{self.budget.elapsed:.0f}s, {left:.0f}s left"
        self._out.write(f"\r\x1b[2K{line}" if self._live else f"{line}\n")
        self._out.flush()

    def end(self) -> None:
        """Leave the last state of the bar on the screen."""
        if self._live:
            self._out.write("\n")
            self._out.flush()


class Steps:
    """Tells whoever draws a bar of their own: what is being done, and the share of the search that is behind."""

    def __init__(self, tell: Callable[[str, float], None], n_trials: int, budget: Budget) -> None:
        self._tell, self.n_trials, self.budget = tell, n_trials, budget
        tell(f"tuning, trial 1 of {n_trials}", 0.0)

    def tell(self, done: int, last: Outcome, best: tuple[int, float] | None) -> None:
        """Say which trial comes next and what the best score is."""
        share = done / self.n_trials
        if self.budget.seconds is not None:
            share = max(share, min(1.0, self.budget.elapsed / self.budget.seconds))
        shown = f", best {best[1]:.4f}" if best else ""
        if done < self.n_trials:
            self._tell(f"tuning, trial {done + 1} of {self.n_trials}{shown}", share)

    def end(self) -> None:
        """Say that only the last fit is left."""
        self._tell("training with the best settings", 1.0)

"""The display of progress: lines for a log, one line on a terminal, and one display at a time."""

import io
import sys

import pytest

from onepos import AssumeNegativeClassifier
from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.datasets import make_known_posterior


def take_for_terminal(monkeypatch):
    """Replace standard error by a stream that says it is a terminal."""
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def work():
    for share in range(100):
        tell(share / 100, f"first, part {share}" if share < 55 else "second")


def test_a_log_gets_a_line_when_a_step_begins_and_after_each_tenth(capsys):
    with progress_shown("fit"):
        work()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "fit   0% first, part 0"
    assert [line.split()[1] for line in lines] == [f"{n}%" for n in (0, 10, 20, 30, 40, 50, 55, 60, 70, 80, 90)]
    assert "second" in lines[6]


@pytest.mark.parametrize("keep", [True, False])
def test_a_terminal_has_one_line_which_stays_or_goes(monkeypatch, keep):
    terminal = take_for_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "40")
    with progress_shown(keep=keep):
        work()
    written = terminal.getvalue()
    assert written.count("\n") == keep
    assert written.endswith("\n" if keep else "\r\x1b[2K")
    assert all(len(line.rstrip("\n")) < 40 for line in written.split("\r\x1b[2K"))


def test_nothing_is_written_if_nothing_is_told(monkeypatch):
    terminal = take_for_terminal(monkeypatch)
    with progress_shown():
        pass
    assert terminal.getvalue() == ""


def test_verbose_shows_epochs_and_losses_unless_another_display_is_on(capsys):
    data = make_known_posterior(60, 4, 3, random_state=0)
    model = AssumeNegativeClassifier(max_epochs=2, early_stopping=False, verbose=1, random_state=0)
    model.fit(data.X, data.observed)
    assert "AssumeNegativeClassifier" in (said := capsys.readouterr().err)
    assert "training, epoch 2 of 2, loss " in said
    with progress_shown("outer"):
        model.fit(data.X, data.observed)
    assert "AssumeNegativeClassifier" not in capsys.readouterr().err

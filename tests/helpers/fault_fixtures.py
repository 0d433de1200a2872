"""Disks of a few megabytes, and commands in processes of their own that can be sent signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


class Disk:
    """A file system of its own: it can be filled, emptied and made read-only, which binds even root."""

    def __init__(self, path, megabytes):
        self.path = path
        path.mkdir()
        made = _system("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path)
        if made.returncode:
            pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")

    def fill(self, *, leave=0):
        """Take all room but so many bytes."""
        with (self.path / "filler").open("wb", buffering=0) as file:
            room = os.statvfs(self.path)
            for block in [b"\0" * 4096] * ((room.f_bavail * room.f_frsize - leave) // 4096):
                file.write(block)

    def empty(self):
        (self.path / "filler").unlink()

    def protect(self):
        ended = _system("mount", "-o", "remount,ro", self.path)
        assert ended.returncode == 0, ended.stderr

    def close(self):
        _system("umount", "--lazy", self.path)


def _system(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.fixture
def make_disk(tmp_path):
    """Return a function that mounts a small disk; skips where that is not allowed."""
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("only root can mount a small disk (Linux)")
    made = []

    def make(megabytes=1):
        made.append(Disk(tmp_path / f"disk{len(made)}", megabytes))
        return made[-1]

    yield make
    for disk in made:
        disk.close()


class Command:
    """``onepos …`` in a process group of its own, as a terminal starts it."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "onepos", *map(str, arguments)]
        # A shell starts background jobs with SIGINT ignored, and so would this one if the tests run in one.
        ready = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), "start_new_session": True}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes, **ready)
        self.seen = ""

    def wait_for(self, text):
        """Read its messages until one has this text."""
        while text not in self.seen:
            line = self.process.stderr.readline()
            assert line, f"it ended without saying {text!r}: {self.seen}"
            self.seen += line

    def send(self, number):
        """Send a signal to the process and its workers, as a terminal does."""
        os.killpg(self.process.pid, number)

    def end(self):
        """Wait, and return exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=600)
        return self.process.returncode, out, self.seen + err


@pytest.fixture
def start():
    """Return a function that starts ``onepos`` with arguments; what still runs at the end of the test is killed."""
    started = []

    def run(*arguments):
        started.append(Command(*arguments))
        return started[-1]

    yield run
    for command in started:
        if command.process.poll() is None:
            command.send(signal.SIGKILL)
        command.process.communicate()


@pytest.fixture
def until():
    """Return a function that waits for a condition; a condition that never comes fails the test."""

    def wait(condition, seconds=600):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    return wait


@pytest.fixture
def photos(tmp_path):
    """Return a CSV file with one tag a row, and the options of ``fit`` for it."""
    from photo_table import photo_table

    path = Path(tmp_path) / "photos.csv"
    photo_table().drop(columns="tags").to_csv(path, index=False)
    return path, "--label", "tag", "--text", "caption", "--id", "id"

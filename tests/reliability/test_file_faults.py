"""Disks that are full, folders that may not be written, files that vanish, two writers at once."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

import onepos
from onepos.exceptions import ModelFileError

posix = pytest.mark.skipif(os.name != "posix", reason="limits and mode bits of POSIX")


@pytest.fixture
def model():
    return onepos.FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])


def _child(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@posix
def test_a_full_disk_leaves_the_old_model_and_no_rest(model, tmp_path):
    """A limit on the size of files stands for the full disk: the write fails half-way."""
    path = model.save(tmp_path / "model.onepos")
    before = path.read_bytes()
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
        with pytest.raises(OSError, match="too large"):
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, previous)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onepos"]
    onepos.load(path)


def test_a_half_written_model_is_never_believed(model, tmp_path):
    content = model.save(tmp_path / "whole").read_bytes()
    for length in range(0, len(content), max(1, len(content) // 40)):
        (tmp_path / "half").write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="truncated or corrupt"):
            onepos.load(tmp_path / "half")


def test_a_folder_that_is_a_file(model, tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(OSError, match="folder"):
        model.save(tmp_path / "folder" / "model.onepos")


@posix
def test_a_table_that_cannot_be_written_leaves_the_old_one(run, tmp_path):
    """The command says in one line what is wrong, and nothing is half there."""
    table = tmp_path / "photos.csv"
    table.write_text("a,tag\n" + "".join(f"{i % 7},{'sea' if i % 2 else 'sun'}\n" for i in range(30)))
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    code, _, err = run("fit", table, "--label", "tag", "--method", "frequency", "--out", taken / "model.onepos")
    assert code != 0
    assert "Traceback" not in err
    assert "taken" in err
    assert taken.read_text() == "a file, not a folder"

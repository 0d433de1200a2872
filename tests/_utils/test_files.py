"""A file is replaced whole or not at all, and nothing is left beside it."""

import os
from pathlib import Path

import pytest

from onepos._utils.files import write_durably


def test_replaces_and_returns_the_path(tmp_path):
    path = tmp_path / "a.txt"
    assert write_durably(path, b"old") == path
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, place):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync") if place == "fsync" else (Path, "replace")), fail)
        with pytest.raises(OSError, match="disk full"):
            write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]

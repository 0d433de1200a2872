"""Disks that are full or read-only, folders that may not be written, files that vanish, two writers at once."""

import os
import resource
import signal
import threading

import numpy as np
import pytest

import onepos
from onepos.exceptions import ModelFileError

posix = pytest.mark.skipif(os.name != "posix", reason="limits and mode bits of POSIX")


FREE = "no space is left on this disk; what was stored before is intact. Free some, then try again"
READ_ONLY = "this disk may only be read. Choose another place"


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    settings = {"max_epochs": 1, "batch_size": 50, "random_state": 0}
    return onepos.make_classifier("an", **settings).fit(rng.normal(size=(50, 200)), np.eye(5)[np.arange(50) % 5])


def test_a_model_on_a_full_disk(model, make_disk):
    disk = make_disk()
    path = model.save(disk.path / "model.onepos")
    before = path.read_bytes()
    disk.fill(leave=8192)  # a part of the new file finds room, which is the worse case
    with pytest.raises(OSError, match=f"{FREE}: '{path}'"):
        model.save(path)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in disk.path.iterdir()) == ["filler", "model.onepos"]
    onepos.load(path)
    disk.empty()
    model.save(path)


def test_a_model_on_a_read_only_disk(model, make_disk):
    disk = make_disk()
    path = model.save(disk.path / "model.onepos")
    disk.protect()
    onepos.load(path)
    with pytest.raises(OSError, match=f"{READ_ONLY}: '{path}'"):
        model.save(path)


def test_a_fit_on_a_full_disk_is_one_line(run, photos, make_disk):
    disk = make_disk()
    disk.fill()
    code, said, err = run("fit", *photos, "--method", "frequency", "--out", disk.path / "model.onepos")
    assert (code, said) == (2, "")
    assert err.splitlines()[-1] == f"onepos: {disk.path / 'model.onepos'}: {FREE}"
    assert [entry.name for entry in disk.path.iterdir()] == ["filler"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_on_a_full_disk(run, photos, tmp_path, make_disk, suffix):
    model, disk = tmp_path / "model.onepos", make_disk()
    assert run("fit", *photos, "--method", "frequency", "--out", model)[0] == 0
    disk.fill()
    out = disk.path / f"predictions.{suffix}"
    code, _, err = run("predict", model, photos[0], "--out", out)
    assert code == 2
    assert err.splitlines()[-1] == f"onepos: {out}: {FREE}"
    assert [entry.name for entry in disk.path.iterdir()] == ["filler"]


def test_a_checkpoint_on_a_full_disk_is_one_line(run, photos, tmp_path, make_disk):
    disk = make_disk()
    disk.fill()
    settings = ("--set", "max_epochs=9", "--set", "early_stopping=False")
    arguments = ("--method", "an", *settings, "--checkpoint", disk.path / "run")
    code, said, err = run("fit", *photos, *arguments, "--out", tmp_path / "model.onepos")
    assert (code, said) == (2, "")
    assert err.splitlines()[-1].endswith(FREE)
    assert "Traceback" not in err


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


def test_threads_that_save_to_one_name_leave_a_whole_model(tmp_path):
    models = [onepos.FrequencyClassifier().fit(np.zeros((6, 1)), np.eye(k)[np.arange(6) % k]) for k in range(2, 6)]
    path, failures = tmp_path / "model.onepos", []

    def save(model):
        try:
            for _ in range(20):
                model.save(path)
                onepos.load(path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=save, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(onepos.load(path).classes_) in range(2, 6)
    assert list(tmp_path.iterdir()) == [path]


class _Removes(onepos.training.Callback):
    """Deletes a file, or puts another in its place, in the middle of the training that reads it."""

    def __init__(self, path, replacement=None):
        self.path, self.replacement = path, replacement

    def on_epoch_end(self, objective, record):
        if self.path.exists():
            self.path.unlink()
            if self.replacement is not None:
                np.save(self.path, self.replacement)


@posix
@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_large_file_that_goes_while_rows_are_read_from_it(tmp_path, monkeypatch, replaced):
    """Rows come from the file in every epoch (here from the first megabyte on): the map keeps what it opened."""
    monkeypatch.setattr("onepos.rows.stored.LOAD_BELOW_BYTES", 1)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 4)).astype(np.float32)
    Y = np.eye(3, dtype=int)[np.arange(60) % 3]
    path = tmp_path / "rows.npy"
    fits = []
    for faulty in (False, True):
        np.save(path, values)
        X = np.load(path, mmap_mode="r")
        model = onepos.make_classifier("an", max_epochs=3, batch_size=16, random_state=0)
        callbacks = [_Removes(path, -values if replaced else None)] if faulty else []
        fits.append(model.fit(X, Y, callbacks=callbacks).predict_proba(X))
    assert np.array_equal(*fits)

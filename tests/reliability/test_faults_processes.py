"""Workers that are killed, runners that meet, files that vanish, clocks that jump: nothing is lost, none is misled."""

import os
import threading

import numpy as np
import pytest

import onepos

posix = pytest.mark.skipif(os.name != "posix", reason="signals and locks of POSIX")


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

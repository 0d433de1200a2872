"""Disks that fill up or may only be read: what was stored is intact, what is half written is not believed."""

import numpy as np
import pytest

import onepos

FREE = "no space is left on this disk; what was stored before is intact. Free some, then try again"


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


def test_a_fit_on_a_full_disk_is_one_line(run, photos, make_disk):
    disk = make_disk()
    disk.fill()
    code, said, err = run(
        "fit", *photos, "--method", "logistic", "--set", "l2=1.0", "--out", disk.path / "model.onepos"
    )
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

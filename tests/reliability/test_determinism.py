"""One seed, one result: in every process, with parallel jobs, from a file, after a resumed run; and nearly so with
another number of threads, which add in another order."""

import os
import subprocess
import sys

import numpy as np
import pytest

import onepos
import seeded_fits
from method_kinds import KINDS
from onepos.training.machine import limited_threads

#: Probabilities of fits with one and with two threads differ by no more; see docs/reliability.md.
TOLERANCE = 1e-4


def _run(folder, threads, keys, hash_seed):
    folder.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, seeded_fits.__file__, str(folder), str(threads), *keys]
    return subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return folders of what every kind of method says, from three processes."""
    root = tmp_path_factory.mktemp("fits")
    keys = list(KINDS)
    # Another order as well: nothing of one fit may reach into the next.
    running = {
        "one": _run(root / "one", 1, keys, "1"),
        "again": _run(root / "again", 1, keys[::-1], "2"),
        "two threads": _run(root / "two threads", 2, keys, "1"),
    }
    for process in running.values():
        _, err = process.communicate()
        assert process.returncode == 0, err
    return {name: root / name for name in running}


@pytest.mark.parametrize("key", KINDS)
def test_another_process_gives_the_same_bits(results, key):
    first, again = (np.load(results[name] / f"{key}.npz") for name in ("one", "again"))
    assert set(first) == set(again)
    for name in first:
        assert np.isfinite(first[name]).all()
        assert np.array_equal(first[name], again[name]), name


@pytest.mark.parametrize("key", KINDS)
def test_a_file_from_another_process_gives_the_same_bits(results, key):
    with limited_threads(1):
        found = onepos.load(results["one"] / f"{key}.onepos").decision_function(seeded_fits.data()[0])
    assert np.array_equal(found, np.load(results["one"] / f"{key}.npz")["logits"])


@pytest.mark.parametrize("key", KINDS)
def test_another_number_of_threads_changes_little(results, key):
    first, second = (np.load(results[name] / f"{key}.npz")["logits"] for name in ("one", "two threads"))
    assert np.abs(_sigmoid(first) - _sigmoid(second)).max() <= TOLERANCE


@pytest.mark.parametrize("key", ["an", "smile"])
def test_a_process_that_has_done_much_else_gives_the_same_bits(results, key):
    with limited_threads(1):
        logits = seeded_fits.fitted(key).decision_function(seeded_fits.data()[0])
    assert np.array_equal(logits, np.load(results["one"] / f"{key}.npz")["logits"])


def test_the_fits_are_large_enough_for_threads_to_matter():
    """Otherwise the comparison above would compare a thing with itself."""
    network = seeded_fits.fitted("an").network_
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    assert 6 * seeded_fits.ROWS * n_parameters >= seeded_fits.WORK


def _sigmoid(logits):
    return 1 / (1 + np.exp(-logits))

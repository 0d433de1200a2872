"""Two processes train the model of one process that computes each batch in two portions."""

import json
import subprocess
import sys

import numpy as np
import pytest

import distributed_fits
import torchrun


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What one process found, and what each of two did."""
    folder = tmp_path_factory.mktemp("fits")
    np.save(folder / "X.npy", distributed_fits.data().X)
    program = torchrun.TESTS / "distributed_fits.py"
    subprocess.run([sys.executable, program, folder], check=True)
    code, printed = torchrun.run(program, folder)
    assert code == 0, printed
    assert not [path.name for path in folder.glob("cache/*")], "files that processes shared must go"
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in ("alone", "0", "1")} | {"said": printed}


@pytest.mark.parametrize("name", [name for name in distributed_fits.CASES if name != "an, any seed"])
def test_two_processes_train_the_model_of_one_with_two_portions(found, name):
    one, two = found["alone"][name], found["0"][name]
    assert (one["processes"], two["processes"]) == (1, 2)
    np.testing.assert_allclose(two["weights"], one["weights"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-5)
    np.testing.assert_allclose(two["soft_labels"], one["soft_labels"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", distributed_fits.CASES)
def test_both_processes_have_the_same_model(found, name):
    """Bit by bit, also without a random_state: the processes agree on one."""
    assert found["0"][name] == found["1"][name]


def test_only_the_callbacks_of_process_0_are_called_and_they_stop_both(found):
    assert found["0"]["callbacks"] == {"told": [1, 2], "epochs": 2}
    assert found["1"]["callbacks"] == {"told": [], "epochs": 2}


def test_different_data_are_noticed_in_both(found):
    for rank in ("0", "1"):
        said = found[rank]["refusals"]["different rows"]
        assert "157 rows of 6 features, 156 rows of 6 features" in said
        assert "Pass the whole memory-mapped array" in said


def test_methods_without_a_network_and_numbered_devices_are_refused(found):
    assert "run it without torchrun, or take a method that trains a network" in found["1"]["refusals"]["no network"]
    assert "'cuda' for a GPU each; got 'cuda:1'" in found["1"]["refusals"]["another device"]


def test_nothing_is_printed(found):
    assert found["said"] == ""

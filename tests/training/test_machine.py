"""Denormal numbers while training, and afterwards; devices and memory that are not there."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import onepos
from onepos import AssumeNegativeClassifier
from onepos.datasets import make_known_posterior
from onepos.exceptions import NotEnoughMemoryError
from onepos.training import Callback
from onepos.training.machine import flushed_denormals


def _product():
    return float(torch.tensor(1e-30, dtype=torch.float32) * 1e-10)


class Noted(Callback):
    def __init__(self):
        self.products = []

    def on_batch_end(self, done, total):
        self.products.append(_product())
        if len(self.products) == 3:
            raise ValueError("enough")


def test_they_are_zero_in_every_step_and_not_afterwards_even_after_an_error():
    data, noted = make_known_posterior(200, 5, 4, random_state=0), Noted()
    with pytest.raises(ValueError, match="enough"):
        AssumeNegativeClassifier(max_epochs=1, early_stopping=False, random_state=0).fit(
            data.X, data.observed, callbacks=[noted]
        )
    assert noted.products == [0.0, 0.0, 0.0]
    assert _product() > 0.0


def test_who_flushes_them_anyway_goes_on_to():
    torch.set_flush_denormal(True)
    try:
        with flushed_denormals():
            assert _product() == 0.0
        assert _product() == 0.0
        torch.set_default_dtype(torch.float64)
        with flushed_denormals():
            pass
        assert _product() == 0.0
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_flush_denormal(False)
    assert _product() > 0.0


_LARGE = """
import torch
from onepos.training.machine import flushed_denormals
torch.set_num_threads(2)
with flushed_denormals():
    torch.full((2_000_000,), 2.0).mul_(3.0)
print(int((torch.full((2_000_000,), 1e-30) * 1e-10 == 0.0).sum()))
"""


def test_threads_of_torch_that_a_fit_needs_first_do_not_keep_it():
    found = subprocess.run(
        [sys.executable, "-c", _LARGE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    assert found.stdout.strip() == "0"


@pytest.mark.parametrize("device", ["meta", "cuda:99", "no such device"])
def test_a_device_that_torch_cannot_use_here_is_refused_before_training(device):
    X, Y = np.eye(6), np.eye(3, dtype=int)[[0, 1, 2, 0, 1, 2]]
    with pytest.raises(ValueError, match="device must be one that torch can use on this machine"):
        onepos.make_classifier("an", device=device).fit(X, Y)
    model = onepos.make_classifier("an", max_epochs=1, random_state=0).fit(X, Y).set_params(device=device)
    with pytest.raises(ValueError, match="device must be one that torch can use on this machine"):
        model.predict(X)


@pytest.mark.parametrize(
    ("method", "setting"),
    [
        ("an", {"network": [10**12]}),
        ("an", {"network": [10**6] * 3}),
    ],
)
def test_memory_is_asked_for_before_it_is_taken(method, setting):
    X, Y = np.eye(6), np.eye(3, dtype=int)[[0, 1, 2, 0, 1, 2]]
    with pytest.raises(NotEnoughMemoryError, match=r"need .* GB of memory; .* GB are available"):
        onepos.make_classifier(method, **setting).fit(X, Y)


def test_the_memory_that_is_left_follows_the_limit_of_the_process():
    program = """
import resource
from onepos._utils.machine import available_bytes
before = available_bytes()
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
after = available_bytes()
assert 0 < after < 2 << 30, after
assert before > 0
held = bytearray(1 << 29)
assert after - available_bytes() >= 1 << 29
"""
    subprocess.run([sys.executable, "-c", program], check=True)

"""With numba, without it, and with one that does not work: fits go on, and say the same up to the last digits."""

import os
import subprocess
import sys

import numpy as np
import pytest

from onepos import SMILEClassifier, kernels
from onepos.datasets import make_known_posterior


def _fitted(n_labels, **more):
    data = make_known_posterior(600, 6, n_labels, random_state=0)
    return SMILEClassifier(max_epochs=2, warm_up_epochs=1, random_state=0, **more).fit(data.X, data.observed)


@pytest.mark.parametrize("n_labels", [6, 30])  # 30: smooth draws
def test_a_fit_is_the_same_but_for_the_last_digits(n_labels, monkeypatch):
    pytest.importorskip("numba")
    compiled = _fitted(n_labels)
    monkeypatch.setattr(kernels, "available", lambda: False)
    interpreted = _fitted(n_labels)
    np.testing.assert_allclose(compiled.soft_labels_, interpreted.soft_labels_, atol=2e-3)
    for name in ("label_enhancement", "risk"):
        np.testing.assert_allclose(compiled.history_[name], interpreted.history_[name], rtol=1e-3)


def test_equal_seeds_give_equal_bits():
    first, second = _fitted(30), _fitted(30)
    np.testing.assert_array_equal(first.soft_labels_, second.soft_labels_)


_SCRIPT = """
import sys, warnings
{preparation}
from onepos import kernels
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(kernels.available(), len(caught), *(str(w.message) for w in caught))
from onepos import SMILEClassifier
from onepos.datasets import make_known_posterior
data = make_known_posterior(60, 6, 5, random_state=0)
print(SMILEClassifier(max_epochs=1, random_state=0).fit(data.X, data.observed).soft_labels_.shape)
"""


def _said(preparation, **environment):
    script = _SCRIPT.format(preparation=preparation)
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    ).stdout.splitlines()


def test_without_numba_a_fit_goes_on():
    assert _said("sys.modules['numba'] = None") == ["False 0", "(60, 5)"]


def test_a_numba_that_does_not_work_is_said_once():
    broken = """
import importlib.abc
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numba":
            raise ImportError("Numba needs NumPy 1.0 or less")
sys.meta_path.insert(0, Broken())
"""
    first, second = _said(broken)
    assert first.startswith("False 1 numba is installed but cannot be imported (Numba needs NumPy 1.0 or less)")
    assert second == "(60, 5)"


def test_it_can_be_switched_off():
    assert _said("", ONEPOS_COMPILED="0") == ["False 0", "(60, 5)"]


def test_kernels_compile_where_nothing_can_be_kept(monkeypatch):
    numba = pytest.importorskip("numba")
    from onepos.kernels import compilation

    asked = []

    def njit(**options):
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(compilation, "njit", njit)
    doubled = compilation.compiled(lambda x: 2 * x)
    assert doubled(3) == 6
    assert asked == [True, False]


def test_importing_the_library_does_not_import_numba():
    script = "import sys, onepos, onepos.kernels; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

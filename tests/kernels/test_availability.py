"""With numba, without it, and with one that does not work: fits go on, and say the same up to the last digits."""

import os
import subprocess
import sys

import numpy as np
import pytest

from onepos import SMILEClassifier, kernels
from onepos.datasets import make_known_posterior
from onepos.exceptions import TrainingWarning


def _fitted(n_labels, **more):
    data = make_known_posterior(600, 6, n_labels, random_state=0)
    model = SMILEClassifier(max_epochs=2, warm_up_epochs=1, elbo_weight=0.5, random_state=0, **more)
    return model.fit(data.X, data.observed)


@pytest.mark.parametrize("n_labels", [6, 30])  # 30: smooth draws
def test_a_fit_is_the_same_but_for_the_last_digits(n_labels, monkeypatch):
    pytest.importorskip("numba")
    compiled = _fitted(n_labels)
    monkeypatch.setattr(kernels, "available", lambda: False)
    interpreted = _fitted(n_labels)
    np.testing.assert_allclose(compiled.soft_labels_, interpreted.soft_labels_, atol=2e-5)
    for name in ("label_enhancement", "risk"):
        np.testing.assert_allclose(compiled.history_[name], interpreted.history_[name], rtol=1e-5)


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


_BROKEN = """
import importlib.abc
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numba":
            raise {error}
sys.meta_path.insert(0, Broken())
"""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("ImportError('Numba needs NumPy 1.0 or less')", "Numba needs NumPy 1.0 or less"),
        ("OSError('Could not load shared object file')", "Could not load shared object file"),
        ("ModuleNotFoundError('No module named llvmlite', name='llvmlite')", "No module named llvmlite"),
    ],
)
def test_a_numba_that_does_not_work_is_said_once(error, reason):
    first, second = _said(_BROKEN.format(error=error))
    assert first.startswith(f"False 1 numba is installed but cannot be imported ({reason})")
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


_DOUBLED = """
import sys, warnings
sys.path.insert(0, {folder!r})
warnings.simplefilter("always")
from doubled import doubled
print(doubled(3))
"""


def _doubled(folder):
    found = subprocess.run(
        [sys.executable, "-c", _DOUBLED.format(folder=str(folder))], capture_output=True, text=True, check=True
    )
    return found.stdout.strip(), found.stderr


@pytest.fixture
def kept(tmp_path):
    """A folder with a kernel that was compiled by another process."""
    pytest.importorskip("numba")
    (tmp_path / "doubled.py").write_text(
        "from onepos.kernels.compilation import compiled\n@compiled\ndef doubled(x):\n    return 2 * x\n"
    )
    assert _doubled(tmp_path) == ("6", "")
    return tmp_path


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("length", [0, 20])
def test_a_damaged_kernel_is_compiled_again(kept, kind, length):
    for path in kept.glob(f"__pycache__/*.{kind}"):
        path.write_bytes(path.read_bytes()[:length])
    printed, said = _doubled(kept)
    assert printed == "6"
    assert "cannot be read" in said


def test_what_was_compiled_before_a_change_is_dropped(kept):
    (stored,) = kept.glob("__pycache__/*.nbc")
    os.utime(stored, (1, 1))  # long before the files of the kernels
    assert _doubled(kept) == ("6", "")
    (again,) = kept.glob("__pycache__/*.nbc")
    assert again.stat().st_mtime > 1


def test_a_kernel_that_cannot_be_kept_is_used(kept, monkeypatch):
    from onepos.kernels import compilation

    class Full:
        def load_overload(self, *arguments):
            return None

        def save_overload(self, *arguments):
            raise OSError("No space left on device")

    full = Full()
    compilation._forgive(full)
    with pytest.warns(TrainingWarning, match="No space left"):
        full.save_overload("signature", "code")


def test_importing_the_library_does_not_import_numba():
    script = "import sys, onepos, onepos.kernels; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"

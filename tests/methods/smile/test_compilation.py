"""Compiled kernels: cached on disk, compiled again where the cache cannot be used."""

import subprocess
import sys

import numba
import pytest

from onepos.exceptions import TrainingWarning
from onepos.methods.smile import _compilation as compilation


def test_kernels_compile_where_nothing_can_be_kept(monkeypatch):
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
    (tmp_path / "doubled.py").write_text(
        "from onepos.methods.smile._compilation import compiled\n@compiled\ndef doubled(x):\n    return 2 * x\n"
    )
    assert _doubled(tmp_path) == ("6", "")
    return tmp_path


@pytest.mark.parametrize(("kind", "length"), [("nbi", 0), ("nbc", 20)])
def test_a_damaged_kernel_is_compiled_again(kept, kind, length):
    for path in kept.glob(f"__pycache__/*.{kind}"):
        path.write_bytes(path.read_bytes()[:length])
    printed, said = _doubled(kept)
    assert printed == "6"
    assert "cannot be read" in said


def test_a_kernel_that_cannot_be_kept_is_used():
    class Full:
        def load_overload(self, *arguments):
            return None

        def save_overload(self, *arguments):
            raise OSError("No space left on device")

    full = Full()
    compilation._tolerate_cache_errors(full)
    with pytest.warns(TrainingWarning, match="No space left"):
        full.save_overload("signature", "code")

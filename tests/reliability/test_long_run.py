"""A process that fits again and again does not fill up: the short version of benchmarks/reliability/long_run.py."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "reliability" / "long_run.py"
pytestmark = [pytest.mark.long, pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")]


@pytest.fixture(scope="module")
def long_run():
    spec = importlib.util.spec_from_file_location("long_run", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_its_own_process(statements):
    """Run statements in a new process, whose threads and files are its own; return the ``found`` that they leave."""
    script = (
        f"import json, mmap, sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import long_run\n"
        f"{statements}\nprint(json.dumps(found))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def test_threads_and_files_do_not_grow_over_some_fits(long_run):
    """Memory needs more fits to tell a slope from a step."""
    found = in_its_own_process("found = long_run.long_run(len(long_run.KEYS), len(long_run.KEYS))")
    assert found["fits"] == len(long_run.KEYS)
    assert not [text for text in long_run.problems(found) if "memory" not in text]


def test_leaks_are_noticed(long_run):
    found = in_its_own_process(
        "kept = []\n"
        "def leak(number, folder):\n"
        "    kept.append((mmap.mmap(-1, 204_800), (folder / str(number)).open('w')))\n"
        "    kept[-1][0].write(b'x' * 204_800)\n"
        "found = long_run.long_run(20, 2, life=leak)"
    )
    assert found["kilobytes_a_fit"] == pytest.approx(200, rel=0.3)
    assert found["files"][1] - found["files"][0] == 19
    assert {text.split()[0] for text in long_run.problems(found)} == {"files", "memory"}


def test_the_slope_ignores_a_single_jump(long_run):
    assert long_run.slope([1.0] * 15 + [500.0] * 5) == 0.0
    assert long_run.slope([3.0 * i for i in range(10)]) == pytest.approx(3.0)

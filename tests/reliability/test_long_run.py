"""A process that fits again and again does not fill up: the short version of benchmarks/reliability/long_run.py."""

import importlib.util
import json
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "reliability" / "long_run.py"
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")


@pytest.fixture(scope="module")
def long_run():
    spec = importlib.util.spec_from_file_location("long_run", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_threads_and_files_do_not_grow_over_some_fits(long_run):
    """In a process of its own, whose threads are its own. Memory needs more fits to tell a slope from a step."""
    script = (
        f"import sys, json; sys.path.insert(0, {str(SCRIPT.parent)!r}); import long_run\n"
        "print(json.dumps(long_run.long_run(len(long_run.KEYS), len(long_run.KEYS))))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    assert found["fits"] == len(long_run.KEYS)
    assert not [text for text in long_run.problems(found) if "memory" not in text]


def test_leaks_are_noticed(long_run):
    kept = []

    # Pages of its own: what is taken from the heap may lie in memory that an earlier test has given back.
    def leak(number, folder):
        kept.append((mmap.mmap(-1, 204_800), (folder / str(number)).open("w")))
        kept[-1][0].write(b"x" * 204_800)

    try:
        found = long_run.long_run(20, 2, life=leak)
    finally:
        for pages, file in kept:
            pages.close()
            file.close()
    assert found["kilobytes_a_fit"] == pytest.approx(200, rel=0.3)
    assert found["files"][1] - found["files"][0] == 19
    assert {text.split()[0] for text in long_run.problems(found)} == {"files", "memory"}


def test_the_slope_ignores_a_single_jump(long_run):
    assert long_run.slope([1.0] * 15 + [500.0] * 5) == 0.0
    assert long_run.slope([3.0 * i for i in range(10)]) == pytest.approx(3.0)

"""Fixtures that the tests of both packages use."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from browser import Window, chromium
from onepos.cli import main

pytest_plugins = ("fault_fixtures",)

# An example that is slow on a busy machine is no wrong result: timings live in benchmarks.
# The suite tries the same examples in every run; `make explore` tries new ones.
settings.register_profile("onepos", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("onepos")


#: The real data, if ``$ONEPOS_DATA`` does not name them. Looked up here: some tests change the environment.
_DATA = Path(os.environ.get("ONEPOS_DATA") or Path(__file__).resolve().parents[1] / "shared" / "data")


@pytest.fixture(scope="session")
def data_folder():
    """Return the folder of the real data sets; skips where there is none."""
    if not (_DATA / "manifest.json").is_file():
        pytest.skip("needs real data: point ONEPOS_DATA to a folder with manifest.json, or fill ../shared/data")
    return _DATA


_BFLOAT16_PRODUCT = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); torch.mm(a, a)"


def _leave_out_what_is_only_announced():
    """Keep oneDNN from matrix instructions that some virtual machines announce and do not have (docs/networks.md)."""
    processor = Path("/proc/cpuinfo")
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not processor.exists() or "amx_tile" not in processor.read_text():
        return
    if subprocess.run([sys.executable, "-c", _BFLOAT16_PRODUCT], check=False).returncode == -signal.SIGILL:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"


_leave_out_what_is_only_announced()


#: Tests that start processes, drive a browser, run studies or examples, or train every method: not in `make check`.
_SLOW = (
    "tests/doctor/test_simulation.py",
    "tests/graph/test_approximate.py",
    "tests/methods/auto/",
    "studies/tests/methods/",
    "tests/methods/smile/test_compilation.py",
    "tests/persistence/test_persistence.py",
    "tests/reliability/",
    "tests/project/",
    "tests/pages/",
    "tests/methods/test_scikit_learn.py",
    "tests/methods/test_estimator_checks.py",
    "studies/tests/study/test_bench.py",
    "studies/tests/study/test_execute.py",
    "studies/tests/study/test_provenance.py",
    "studies/tests/study/test_cluster.py",
    "studies/tests/study/test_report_in_browser.py",
    "studies/tests/study/test_results_in_step.py",
    "studies/tests/study/test_runner.py",
    "tests/training/test_checkpoints.py",
    "tests/training/test_processes.py",
    "tests/training/test_torchrun_fit.py",
    "tests/rows/",
    "tests/cli/",
    "studies/tests/reliability/",
)


def pytest_collection_modifyitems(items):
    """Mark the tests of these folders and files as slow, and run them first: no long file is left for the end."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder) and item.path.relative_to(folder).as_posix().startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def run(capsys):
    """Run a command in this process; returns exit code, standard output, standard error."""

    def run_command(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run_command


@pytest.fixture(scope="session")
def chromium_browser():
    """One browser for all tests of this process."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(chromium_browser):
    """A window without memory of earlier tests."""
    window = Window(chromium_browser)
    yield window
    window.close()

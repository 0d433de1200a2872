import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def smoke_results(tmp_path_factory):
    """Return the results folder of an undisturbed `onepos bench run smoke`."""
    folder = tmp_path_factory.mktemp("smoke")
    command = [sys.executable, "-m", "onepos", "bench", "run", "smoke", "--out", str(folder), "--jobs", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return folder

import subprocess
import sys

import pytest

from onepos_studies.study import shipped_studies


@pytest.fixture(scope="session")
def smoke_results(tmp_path_factory):
    """Return the results folder of `onepos bench run` with the cells of `smoke`, trained for a few epochs."""
    folder = tmp_path_factory.mktemp("smoke")
    text = shipped_studies()["smoke"]
    for before, after in (("max_epochs = 8", "max_epochs = 3"), ("batch_size = 32", "batch_size = 128")):
        assert before in text
        text = text.replace(before, after)
    (folder / "short.toml").write_text(text, encoding="utf-8")
    out = folder / "out"
    command = [sys.executable, "-m", "onepos", "bench", "run", folder / "short.toml", "--out", out, "--jobs", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return out

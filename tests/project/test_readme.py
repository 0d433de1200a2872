"""Every code block of the README runs, in order, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_only_known_kinds_of_blocks():
    assert {kind for kind, _ in BLOCKS} == {"python", "console"}


@pytest.mark.slow
def test_python_blocks_run_in_sequence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for kind, source in BLOCKS:
        if kind == "python":
            exec(compile(source, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "beach" in printed
    assert "average_precision" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [line[2:] for kind, source in BLOCKS if kind == "console" for line in source.splitlines()]
)
def test_console_commands_succeed(tmp_path, command):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()

"""Write what README.md and docs/quickstart.md show as output: ``python tools/shown_output.py [README] [Start]``.

Run it after a change of methods. In README the commands run as printed, in Start the Python blocks, in an empty folder.
"""

import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[1]
#: A block of code, and the block with its output below it.
_PYTHON = re.compile(r"(```python\n(.*?)```\n)(?:\n```text\n.*?```\n)?", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_TEXT = re.compile(r"```text\n(.*?)```", re.DOTALL)


def printed_by(run: Callable[[], Any]) -> list[str]:
    """Return the lines that a function prints, without blanks at their ends."""
    with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        run()
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def start(page: str) -> str:
    """Return the page with the output of its Python blocks."""
    namespace: dict[str, Any] = {}
    pd.set_option("display.width", 110, "display.max_colwidth", 44)

    def shown(block: re.Match[str]) -> str:
        lines = printed_by(lambda: exec(compile(block[2], "Start", "exec"), namespace))
        return block[1] + ("\n```text\n" + "\n".join(lines) + "\n```\n" if lines else "")

    return _PYTHON.sub(shown, page)


def readme(page: str) -> str:
    """Return the page with the output of its commands: of the demo up to its table, of the others the lines shown."""
    from onepos.cli import main

    commands = [line for block in _CONSOLE.findall(page) for line in block.splitlines()]
    demo, *others = (printed_by(lambda line=line: main(shlex.split(line)[1:])) for line in commands)  # type: ignore[misc]
    end = next(number for number, line in enumerate(demo) if line.startswith("Doctor:"))
    told = [line for lines in others for line in lines]
    picked = [line for line in told if line.startswith("verdict") or "tags suggested beside" in line]
    blocks = iter(["\n".join(demo[: end - 1]), "\n".join(picked)])
    return _TEXT.sub(lambda _: f"```text\n{next(blocks)}\n```", page)


if __name__ == "__main__":
    for name, path, renew, width in (("README", "README.md", readme, 80), ("Start", "docs/quickstart.md", start, 110)):
        os.environ["COLUMNS"] = str(width)
        if name in (sys.argv[1:] or ("README", "Start")):
            with tempfile.TemporaryDirectory() as folder, chdir(folder):
                text = renew((ROOT / path).read_text(encoding="utf-8"))
            (ROOT / path).write_text(text, encoding="utf-8")

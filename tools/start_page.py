"""Run the code of docs/quickstart.md and write what it prints below each block: ``python tools/start_page.py``."""

import io
import os
import re
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import pandas as pd

PAGE = Path(__file__).parents[1] / "docs" / "quickstart.md"
#: A block of code, and the block with its output below it or the place of one.
BLOCK = re.compile(r"(```python\n(.*?)```\n)\n(@@\d@@|```text\n.*?```)?\n?", re.DOTALL)


def main() -> None:
    """Run all blocks in order, in an empty folder."""
    namespace: dict[str, Any] = {}

    def run(block: re.Match[str]) -> str:
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(block[2], PAGE.name, "exec"), namespace)
        lines = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        return f"{block[1]}\n" + (f"```text\n{lines}\n```\n" if lines else "")

    os.environ.setdefault("COLUMNS", "100")
    pd.set_option("display.width", 110, "display.max_colwidth", 44)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        PAGE.write_text(BLOCK.sub(run, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

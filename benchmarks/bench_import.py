"""Section import: what `import onepos` adds to a bare interpreter."""

import subprocess
import sys

from harness import alternate, record, seconds_of, spread

TITLE = "Import"
ABOUT = "Wall time of `import onepos` beyond that of a bare interpreter."


def measure(options):
    def start(code):
        return seconds_of(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    raw = alternate(
        {"import onepos": start("import onepos"), "bare": start("pass")}, max(options.repeats, 3), warm=True
    )
    extra = [a - b for a, b in zip(*raw.values(), strict=True)]
    yield record("import onepos", "seconds", spread(extra), unit="s", raw=raw)

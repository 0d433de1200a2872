"""Peak memory of a piece of Python, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import HERE

_START = "import sys, warnings; warnings.simplefilter('ignore'); sys.path.insert(0, {here!r})\n"
_END = "\nimport json, peak; print(json.dumps({**globals().get('result', {}), 'megabytes': peak.megabytes()}))"


def run(code: str) -> dict[str, Any]:
    """Run ``code`` with these files importable; returns its ``result`` (a dict), if it sets one, and "megabytes"."""
    script = _START.format(here=str(HERE)) + code + _END
    done = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def megabytes() -> float:
    """Return the most resident memory that this process ever had, in 10⁶ bytes.

    Where there is /proc, from there: ``ru_maxrss`` of a new process starts at its parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6

"""The machine that a row is computed on, and how much memory the computation took."""

import os
import platform
import re
import resource
from contextlib import suppress
from functools import cache
from pathlib import Path

_STATUS = Path("/proc/self/status")


@cache
def machine() -> dict[str, str | int | None]:
    """Return what kind of machine this is, without its name."""
    model = _first(Path("/proc/cpuinfo"), r"^model name\s*: (.+)$")
    return {"system": platform.system(), "processor": model or platform.machine(), "cores": os.cpu_count()}


def reset_peak_memory() -> None:
    """Let the kernel forget this process's peak, where it can; elsewhere the peak is of the process's whole life."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_megabytes() -> float:
    """Return the most resident memory since the last reset."""
    if kilobytes := _first(_STATUS, r"^VmHWM:\s+(\d+)"):  # some sandboxes have no such line
        return int(kilobytes) / 1024
    unit = 1024 * 1024 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _first(file: Path, pattern: str) -> str:
    """Return what a line of a file of the kernel says, or nothing."""
    line = re.search(pattern, file.read_text(), re.MULTILINE) if file.exists() else None
    return line[1].strip() if line else ""

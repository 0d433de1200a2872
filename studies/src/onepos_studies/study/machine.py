"""The machine that a row is computed on, and how much memory the computation took."""

import os
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path

_STATUS = Path("/proc/self/status")


@cache
def machine() -> dict[str, str | int | None]:
    """Return what kind of machine this is, without its name."""
    return {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def reset_peak_memory() -> None:
    """Let the kernel forget this process's peak, where it can; elsewhere the peak is of the process's whole life."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_megabytes() -> float:
    """Return the most resident memory since the last reset."""
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    for line in lines:  # some sandboxes have the file without this line
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    import resource

    unit = 1024 * 1024 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

"""Where and with what a cell was run, and the most memory it took."""

import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PACKAGES = ("onepos", "numpy", "scipy", "scikit-learn", "torch", "pandas")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


@cache
def machine() -> dict[str, str | int | None]:
    """Return what kind of machine this is; nothing that names it."""
    return {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count()}


def reset_peak_memory() -> None:
    """Let the kernel forget this process's peak, where it can; elsewhere the peak is of the process's whole life."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_megabytes() -> float:
    """Return the most resident memory since the last reset."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import resource

    unit = 1024 * 1024 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

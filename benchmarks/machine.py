"""One thread for everybody, the data folder, and on what machine a section was measured."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_PACKAGES = ("onepos", "numpy", "scipy", "scikit-learn", "torch", "skorch", "faiss-cpu", "numba")


def prepare() -> None:
    """Call before NumPy is imported: its BLAS reads the number of threads once."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    shared = HERE.parents[1] / "shared" / "data"
    if "ONEPOS_DATA" not in os.environ and shared.is_dir():
        os.environ["ONEPOS_DATA"] = str(shared)


def describe() -> dict[str, Any]:
    """Return processor, cores, versions; nothing that names the machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "versions": {"Python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }


def load() -> float:
    """Return how many processes wanted a core in the last minute: above the number of cores, times are too long."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else float("nan")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

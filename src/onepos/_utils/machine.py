"""The process and its machine: installed packages, memory, and whether torchrun started it beside others."""

import multiprocessing
import os
import platform
import sys
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from onepos._utils.context import setting
from onepos.exceptions import MissingDependencyError, NotEnoughMemoryError

#: Smaller requests are not compared with the memory that is left.
_SMALL_REQUEST = 1 << 28
_CGROUP = Path("/sys/fs/cgroup")
_STATUS = Path("/proc/self/status")
_PACKAGES = ("onepos", "numpy", "scipy", "scikit-learn", "torch", "pandas")


def require(module: str, *, extra: str, purpose: str, package: str = "onepos") -> ModuleType:
    """Import a module that an extra of a package brings; the error begins with ``purpose``, such as "drawing plots"."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingDependencyError(
            f'{purpose} needs {name}, which is not installed: pip install "{package}[{extra}]"'
        ) from error


def import_named(target: str) -> Any:
    """Return what ``package.module:Class`` names; modules of the working folder are found, too."""
    module, _, name = target.partition(":")
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)  # at the end: no file there takes the place of an installed module
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"cannot import {target}: {error}. Expected package.module:Class, installed or in the working folder."
        ) from error


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def require_memory(n_bytes: float, what: str, advice: str) -> None:
    """Raise NotEnoughMemoryError if ``what`` needs more bytes than are left; the message ends with ``advice``."""
    left = available_bytes() if n_bytes >= _SMALL_REQUEST else None
    if left is not None and n_bytes > left:
        raise NotEnoughMemoryError(
            f"{what} need {n_bytes / 1e9:,.1f} GB of memory; {left / 1e9:,.1f} GB are available. {advice}"
        )


def available_bytes() -> int | None:
    """Return the memory that Linux, a container and its limits leave to this process; None elsewhere."""
    if not _STATUS.exists():
        return None
    left = [1024 * _fields(Path("/proc/meminfo"))["MemAvailable:"]]
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        # Pages of files count as used, and are given up when memory is short.
        pages = _fields(_CGROUP / "memory.stat")["inactive_file"]
        left.append(int(limit.read_text()) - int(used.read_text()) + pages)
    import resource

    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    if addresses != resource.RLIM_INFINITY:
        left.append(addresses - 1024 * _fields(_STATUS)["VmSize:"])
    return max(0, min(left))


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers of a file of the kernel by the word before each."""
    words = (line.split() for line in path.read_text().splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


_APART: ContextVar[bool] = ContextVar("onepos_apart", default=False)


def apart() -> AbstractContextManager[None]:
    """Let every process do the work inside on its own: for small fits that all of them repeat."""
    return setting(_APART, True)


def launched() -> bool:
    """Whether torchrun started this process beside others. Workers that such a process starts in turn stand alone."""
    return (
        not _APART.get()
        and "TORCHELASTIC_RUN_ID" in os.environ
        and int(os.environ.get("WORLD_SIZE", "1")) > 1
        and multiprocessing.parent_process() is None
    )


def launched_rank() -> int:
    """Return the number of this process among those that torchrun started; 0 without others."""
    return int(os.environ["RANK"]) if launched() else 0

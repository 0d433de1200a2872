"""Start a program several times with torchrun, on this machine, as the tests of several processes do."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def start(*arguments, processes=2, **options):
    """Start torchrun with the given program and arguments; standard error goes where standard output does."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    # Once a second torchrun checks on its processes: one that lost another has time to say so before it is ended.
    command += ["--monitor-interval", "1"]
    # A thread each: the tests share the machine. torchrun would set it, too, and say so.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "--nproc-per-node", str(processes), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        **options,
    )


def run(*arguments, processes=2, timeout=900, **options):
    """Run it to its end; returns the exit code and what was printed."""
    with start(*arguments, processes=processes, **options) as process:
        try:
            printed, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends the processes that it started
            printed, _ = process.communicate()
            raise AssertionError(f"torchrun did not end within {timeout} s:\n{printed}") from None
        return process.returncode, printed


def ranks(torchrun_pid):
    """Process ids by rank, of the processes that a torchrun has started."""
    import psutil

    found = {}
    for child in psutil.Process(torchrun_pid).children():
        rank = child.environ().get("RANK")
        if rank is not None:
            found[int(rank)] = child.pid
    return found

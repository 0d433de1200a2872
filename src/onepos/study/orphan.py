"""Worker processes that end with their runner, however it ends: a killed runner must not leave work behind."""

import os
import socket
import threading
import time

_watched = False


def this_process() -> tuple[str, int]:
    """Return what identifies this process among those of several machines."""
    return socket.gethostname(), os.getpid()


def end_with_runner(runner: tuple[str, int], every: float = 1.0) -> None:
    """In a worker on the runner's machine, watch the runner and leave as soon as it is gone; elsewhere do nothing.

    Parameters
    ----------
    runner : from ``this_process`` in the runner
    every : float
        Seconds between looks.
    """
    global _watched
    host, process = runner
    if _watched or process == os.getpid() or host != socket.gethostname():
        return
    _watched = True

    def watch() -> None:
        while _alive(process):
            time.sleep(every)
        os._exit(1)  # nobody is left to take a result

    threading.Thread(target=watch, name="end-with-runner", daemon=True).start()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 asks only whether there is such a process
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

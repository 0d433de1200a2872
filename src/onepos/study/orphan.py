"""Worker processes that end with their runner, however it ends, and not before: it says when they stop."""

import os
import signal
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
    # A terminal and a service manager send these to the runner and its workers alike. The runner ends them; one that
    # were gone before it would look like one that was killed for want of memory.
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
    is_child = os.getppid() == process

    def watch() -> None:
        # A child has another parent as soon as its own ends; its number stays taken until somebody asks how it ended.
        while os.getppid() == process if is_child else _alive(process):
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

"""Worker processes that end with their runner, however it ends: a killed runner must not leave work behind."""

import os
import threading
import time

_watched = False


def end_with_runner(runner: int, every: float = 1.0) -> None:
    """In a child process of the runner, watch it and leave as soon as it is gone; elsewhere do nothing.

    Parameters
    ----------
    runner : int
        The runner's process number.
    every : float
        Seconds between looks.
    """
    global _watched
    if _watched or os.getppid() != runner:
        return
    _watched = True

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(every)
        os._exit(1)  # nobody is left to take a result

    threading.Thread(target=watch, name="end-with-runner", daemon=True).start()

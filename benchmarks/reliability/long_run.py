"""Many fits in one process: `python benchmarks/reliability/long_run.py --fits 200`.

After a warm-up (imports, thread pools, allocators and caches of the libraries grow once) neither memory nor the number
of threads and open files may grow from fit to fit. Each fit is a whole life: data, fit, predictions, a file written and
read.
"""

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

#: Methods of every kind: networks, a graph, closed forms, a combination.
KEYS = ("smile", "an", "role", "crisp", "logistic", "mlml", "auto")
SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {"methods": ("logistic", "softmax"), "n_folds": 2, "time_budget": None},
    "logistic": {"l2": 1.0},
    "mlml": {"instance_smoothness": 1.0},
}
#: Kilobytes a fit that count as growth: 200 fits may not take more than some ten megabytes.
LIMIT_KILOBYTES = 50.0


def one_life(number: int, folder: Path) -> None:
    """Make data, fit a method, predict, save, load, predict again."""
    import onepos
    from onepos.datasets import make_known_posterior
    from onepos.methods._neural import NeuralClassifier
    from onepos.methods.registry import METHODS, make_classifier

    key = KEYS[number % len(KEYS)]
    data = make_known_posterior(200, 8, 5, random_state=number)
    more = {"max_epochs": 3, "batch_size": 64} if issubclass(METHODS[key].load_class(), NeuralClassifier) else {}
    model = make_classifier(key, random_state=number, **more, **SETTINGS.get(key, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.observed)
    found = onepos.load(model.save(folder / "model.onepos")).predict_proba(data.X)
    if not np.array_equal(found, model.predict_proba(data.X)):
        raise AssertionError(f"fit {number} ({key}): the stored model predicts something else")


def measure() -> dict[str, float]:
    """Return what this process holds now; garbage that only waits to be collected does not count."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "kilobytes": pages * os.sysconf("SC_PAGE_SIZE") / 1024,
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "python_threads": threading.active_count(),
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


def slope(values: list[float]) -> float:
    """Return the median of the slopes of all pairs (Theil and Sen): one jump of an allocator does not tilt it."""
    y = np.asarray(values, dtype=np.float64)
    i, j = np.triu_indices(len(y), 1)
    return float(np.median((y[j] - y[i]) / (j - i)))


def long_run(fits: int, warm_up: int, life: Any = one_life) -> dict[str, Any]:
    """Run so many fits after the warm-up and return the growth a fit; ``life`` is what is repeated."""
    history = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(warm_up + fits):
            life(number, Path(folder))
            if number >= warm_up:
                history.append(measure())
    kilobytes = [point["kilobytes"] for point in history]
    ends = {name: [int(history[0][name]), int(history[-1][name])] for name in history[0]}
    return {"fits": fits, "warm_up": warm_up, "kilobytes_a_fit": slope(kilobytes), **ends}


def problems(found: dict[str, Any]) -> list[str]:
    """Return in words what grew."""
    grown = [
        f"{name} grew from {a} to {b}"
        for name in ("threads", "python_threads", "files")
        for a, b in [found[name]]
        if b > a
    ]
    if found["kilobytes_a_fit"] > LIMIT_KILOBYTES:
        grown.append(f"memory grows by {found['kilobytes_a_fit']:.0f} kB a fit")
    return grown


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=35)
    arguments = parser.parse_args()
    found = long_run(arguments.fits, arguments.warm_up)
    print(json.dumps(found, indent=1))
    if grown := problems(found):
        sys.exit("; ".join(grown))


if __name__ == "__main__":
    main()

"""One process of a measured run: fits a method on rows from disk and writes what it took.

torchrun … worker.py DATA METHOD SETTINGS OUT     DATA has X.npy and Y.npy, SETTINGS is JSON, OUT gets r.json
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path


def memory():
    """Memory of this process in 10⁶ bytes: the most it ever held; now: its own, and mapped files."""
    found = {}
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name in ("VmHWM", "RssAnon", "RssFile", "RssShmem"):
            found[name] = int(value.split()[0]) * 1024 / 1e6
    return found


def main():
    import numpy as np

    import onepos
    import onepos.rows.stored
    from onepos.training import Callback

    warnings.simplefilter("ignore")
    onepos.rows.stored.LOAD_BELOW_BYTES = 0  # a trial with few rows reads from disk, too
    data, method, settings, out = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4])
    stages = {"libraries": memory()}

    class Watch(Callback):
        def on_train_begin(self, objective, max_epochs):
            stages["before the first epoch"] = memory()

        def on_epoch_end(self, objective, record):
            stages[f"epoch {record['epoch']}"] = memory()

    X, Y = np.load(data / "X.npy", mmap_mode="r"), np.load(data / "Y.npy")
    started = time.perf_counter()
    model = onepos.make_classifier(method, random_state=0, early_stopping=False, **settings).fit(
        X, Y, callbacks=[Watch()]
    )
    seconds = time.perf_counter() - started
    stages["end"] = memory()
    rank = int(os.environ.get("RANK", "0"))
    found = {
        "rank": rank,
        "seconds": seconds,
        "epochs": model.history_["seconds"],
        "loss": model.history_["loss"],
        "graph": model.history_.facts.get("graph"),
        "rows": int((Y > 0).any(axis=1).sum()),
        "memory": stages,
    }
    (out / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()

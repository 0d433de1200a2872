"""Rows per second of one process with one thread, one with two, and two with one each, on the same two cores.

    python benchmarks/throughput.py [--rows 100000] [--batches 1024 4096] [--methods an smile]

Rows are made up: clusters in a few directions, noise in all, one label per row. They are read from disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from statistics import median

import numpy as np

#: Processes and threads of each.
WAYS = {"1 process, 1 thread": (1, 1), "1 process, 2 threads": (1, 2), "2 processes, 1 thread each": (2, 1)}
NETWORKS = ([128], [1024, 1024])


def write_rows(folder, n, n_features=64, n_labels=20):
    """Write X.npy and Y.npy."""
    rng = np.random.default_rng(0)
    n_clusters = max(10, n // 2000)
    centres = rng.normal(size=(n_clusters, 16)) @ rng.normal(size=(16, n_features))
    cluster = rng.integers(n_clusters, size=n)
    label = np.where(rng.random(n) < 0.8, cluster % n_labels, rng.integers(n_labels, size=n))
    np.save(folder / "X.npy", (centres[cluster] + rng.normal(size=(n, n_features))).astype(np.float32))
    np.save(folder / "Y.npy", np.eye(n_labels, dtype=np.int8)[label])


def work(folder, method, settings):
    """Fit in this process, one of several or the only one; the first writes the seconds of its epochs."""
    import onepos
    import onepos.rows.stored

    warnings.simplefilter("ignore")
    onepos.rows.stored.LOAD_BELOW_BYTES = 0  # few rows are read from disk, too
    X, Y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "Y.npy")
    model = onepos.make_classifier(method, max_epochs=3, early_stopping=False, random_state=0, **settings).fit(X, Y)
    if os.environ.get("RANK", "0") == "0":
        (folder / "seconds.json").write_text(json.dumps(model.history_["seconds"]), encoding="utf-8")


def epoch_seconds(folder, method, settings, processes, threads):
    """Start the processes; return the seconds of an epoch, the first one apart, which also warms up."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        command += ["--nproc-per-node", str(processes)]
    command += [__file__, "--work", str(folder), method, json.dumps(settings)]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)})
    return median(json.loads((folder / "seconds.json").read_text(encoding="utf-8"))[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--methods", nargs="+", default=["an", "smile"])
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        folder, method, settings = options.work
        work(Path(folder), method, json.loads(settings))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder, options.rows)
        for method in options.methods:
            for network in NETWORKS:
                for batch in options.batches:
                    settings = {"network": network, "batch_size": batch}
                    speed = [options.rows / epoch_seconds(folder, method, settings, *way) for way in WAYS.values()]
                    cells = ", ".join(f"{way}: {value:,.0f}" for way, value in zip(WAYS, speed, strict=True))
                    print(f"{method} {network}, batch {batch}, rows per second: {cells}", flush=True)


if __name__ == "__main__":
    main()

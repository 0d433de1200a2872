"""Rows a second of one process with one thread, one with two, and two with one each, on the same two cores.

python benchmarks/distributed/throughput.py [--rows 100000] [--batches 1024,4096] [--epochs 3] [--out FILE.json]
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import start

import rows

WAYS = {"1 process, 1 thread": (1, 1), "1 process, 2 threads": (1, 2), "2 processes, 1 thread each": (2, 1)}
NETWORKS = {"128": [128], "1024, 1024": [1024, 1024]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--batches", default="1024,4096")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--methods", default="an,smile")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    print(f"{'method':<6} {'network':<11} {'batch':>6}  " + "  ".join(f"{way:>27}" for way in WAYS) + "  two over one")
    with tempfile.TemporaryDirectory() as folder:
        rows.write(Path(folder), options.rows, options.features, options.labels)
        for method in options.methods.split(","):
            for name, network in NETWORKS.items():
                for batch in map(int, options.batches.split(",")):
                    speeds = {}
                    settings = {"network": network, "batch_size": batch, "max_epochs": options.epochs}
                    for way, (processes, threads) in WAYS.items():
                        runs = start.run(folder, method, settings, processes=processes, threads=threads)
                        # The first epoch also warms up.
                        speeds[way] = runs[0]["rows"] / statistics.median(runs[0]["epochs"][1:])
                    values = list(speeds.values())
                    shown = "  ".join(f"{value:>20,.0f} rows/s" for value in values)
                    print(f"{method:<6} {name:<11} {batch:>6}  {shown}  {values[2] / values[0]:>12.2f}", flush=True)
                    found.append({"method": method, "network": network, "batch": batch, "rows/s": speeds})
    if options.out is not None:
        options.out.write_text(json.dumps({"rows": options.rows, "found": found}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

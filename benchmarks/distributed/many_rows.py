"""An epoch over more rows than one would like to hold: 5,000,000 × 64 from disk, two processes, peak memory of each.

    python benchmarks/distributed/many_rows.py [--rows 5000000] [--folder DIR] [--out FILE.json]

AN passes over all rows. SMILE's graph is over all rows, too; its epoch is as long as ``--smile-steps`` batches, because
so many rows have a label. Peak memory is what the system counts as resident (VmHWM), pages of mapped files included,
which it may drop at any time; the process's own memory at each stage is told apart.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import start

import rows

LIMIT = 4000.0  # 10⁶ bytes a process


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--labels", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--smile-steps", type=int, default=200)
    parser.add_argument("--methods", default="an,smile")
    parser.add_argument("--folder", type=Path, help="where the rows and the files that processes share lie")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="many-rows-", dir=options.folder))
    runs = {
        "an": ({"batch_size": 4096, "max_epochs": 1}, None),
        "smile": (
            {
                "batch_size": 1024,
                "max_epochs": 1,
                "warm_up_epochs": 0,
                "graph_search": "approximate",
                "cache_folder": str(folder),
            },
            1024 * options.smile_steps,
        ),
    }
    found = {}
    try:
        for method in options.methods.split(","):
            settings, n_trained = runs[method]
            started = time.perf_counter()
            rows.write(folder, options.rows, options.features, options.labels, n_trained)
            written = time.perf_counter() - started
            results = start.run(folder, method, settings, processes=options.processes, threads=1)
            found[method] = results
            first = results[0]
            print(f"{method}: {options.rows:,} × {options.features} rows, {first['rows']:,} with a label")
            print(f"  wrote them in {written:.0f} s; fit {first['seconds']:.0f} s, epoch {first['epochs'][0]:.1f} s")
            if first["graph"] is not None:
                graph = first["graph"]
                print(f"  graph: {graph['search']}, recall {graph['recall']:.3f}, {graph['seconds']:.0f} s")
            for result in results:
                end = result["memory"]["end"]
                verdict = "within" if end["VmHWM"] <= LIMIT else "ABOVE"
                print(
                    f"  process {result['rank']}: peak {end['VmHWM']:,.0f} MB, {verdict} {LIMIT:,.0f}; at the end "
                    f"{end['RssAnon']:,.0f} its own and {end['RssFile']:,.0f} of mapped files",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder)
    if options.out is not None:
        options.out.write_text(json.dumps({"rows": options.rows, "found": found}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

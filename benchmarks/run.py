"""Timings and memory as ratios, measured in one run: `make bench` prints them and writes RESULTS.md.

Competitors alternate and medians are reported, because the machine is shared. Data sets come from $ONEPOS_DATA, else
from ../shared/data; what is not there is left out and said so.
"""

import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path
from statistics import median

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "data"
if "ONEPOS_DATA" not in os.environ and SHARED.is_dir():
    os.environ["ONEPOS_DATA"] = str(SHARED)


def import_seconds() -> float:
    """Median wall time of `import onepos` beyond a bare interpreter."""

    def once(code):
        import time

        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    return median(once("import onepos") - once("pass") for _ in range(5))


def single_positive(name):
    from onepos.datasets import load_dataset, make_single_positive

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load_dataset(name, offline=True)
    return data.X, make_single_positive(data.Y, random_state=0)


def epoch_ratio(name, batch_size, repeats=3):
    """Median seconds of an AN and of a SMILE epoch (past the warm-up), runs alternating."""
    import onepos

    X, Y = single_positive(name)
    common = {"batch_size": batch_size, "max_epochs": 3, "early_stopping": False, "random_state": 0}
    seconds = {"an": [], "smile": []}
    for _ in range(repeats):
        for key, extra in (("an", {}), ("smile", {"warm_up_epochs": 0})):
            model = onepos.make_classifier(key, **common, **extra).fit(X, Y)
            seconds[key] += model.history_["seconds"]
    return {key: median(values) for key, values in seconds.items()}


MEMORY = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import onepos, torch
sys.path.insert(0, {here!r})
from run import single_positive
X, Y = single_positive({name!r})
onepos.SMILEClassifier(max_epochs=1, early_stopping=False, random_state=0).fit(X, Y)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_megabytes(name):
    """Peak resident memory of a fresh process that loads a data set and trains SMILE on it for one epoch."""
    script = MEMORY.format(here=str(HERE), name=name)
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    from onepos.datasets import list_datasets

    available = set(list_datasets().query("available")["name"])
    lines = [
        "# Measured by `make bench`",
        "",
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, one thread. Ratios compare",
        "runs of the same minute; absolute times are those of a shared machine.",
        "",
        f"`import onepos`: {import_seconds():.2f} s.",
        "",
        "| data set | batch | AN epoch, s | SMILE epoch, s | ratio |",
        "|---|---|---|---|---|",
    ]
    for name, batch_size in (("yeast", 16), ("rcv1-s1", 16), ("corel5k", 16), ("corel5k", 256), ("tmc2007", 16)):
        if name not in available:
            lines.append(f"| {name} | {batch_size} | not in the data folder | | |")
            continue
        times = epoch_ratio(name, batch_size)
        ratio = times["smile"] / times["an"]
        lines.append(f"| {name} | {batch_size} | {times['an']:.2f} | {times['smile']:.2f} | {ratio:.1f} |")
        print(lines[-1], flush=True)
    lines += ["", "| data set | peak memory of a SMILE run, MB |", "|---|---|"]
    for name in ("tmc2007", "delicious"):
        if name in available:
            lines.append(f"| {name} | {peak_megabytes(name):.0f} |")
            print(lines[-1], flush=True)
    (HERE / "RESULTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {HERE / 'RESULTS.md'}")


if __name__ == "__main__":
    main()

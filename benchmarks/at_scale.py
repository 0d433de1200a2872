"""What a fit would take at sizes that nobody measured, from the prices in results.json.

python benchmarks/at_scale.py     SMILE and AN, 100 million rows × 128 features × 1,000 labels
python benchmarks/at_scale.py --rows 5000000 --features 64 --labels 100 --processes 1,2 --epochs 1

The prices come from `make bench BENCH='--only scale'`. A process is one core, and --cores of them share a machine,
its memory and its network of --gigabits a second. Features and graph are on disk and mapped: they count as files, not
as memory of a process; labels are in every process. Computing and sending do not overlap.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cost_model import Prices, Sizes, memory_counts, share_of_time, traffic

HERE = Path(__file__).resolve().parent


def stored_prices(results: dict[str, Any]) -> dict[str, Prices]:
    """Return the fitted prices by case ("AN, epoch"), in seconds and bytes."""
    made: dict[str, dict[str, float]] = {}
    for line in results["sections"]["scale"]["records"]:
        if line["measure"].startswith("price of "):
            factor = 1e-9 if line["unit"] == "ns" else 1.0
            made.setdefault(line["case"], {})[line["measure"].removeprefix("price of ")] = factor * line["value"]
    return {case: Prices(prices) for case, prices in made.items()}


@dataclass(frozen=True)
class Machine:
    """What is rented: cores, network in gigabits a second, and what an hour costs."""

    cores: int = 16
    gigabits: float = 10.0
    price: float = 0.80


def plan(
    prices: dict[str, Prices], method: str, sizes: Sizes, processes: int, *, epochs: int, machine: Machine
) -> dict[str, float]:
    """Return hours, money and bytes for one number of processes that share the rows of every batch."""
    machines = -(-processes // machine.cores)
    computing = prices[f"{method}, epoch"].predict(share_of_time(method, sizes, processes))
    # On a machine a ring passes from process to process in memory; one of them sends to the next machine.
    sending = sizes.steps * traffic(method, sizes, processes) * 8 / (machine.gigabits * 1e9) if machines > 1 else 0.0
    # Process 0 seeks the graph, with the cores of its own machine.
    graph = prices["graph"].predict({"comparisons": sizes.n**1.5 * sizes.q}) if method == "SMILE" else 0.0
    graph /= min(processes, machine.cores)
    hours = (graph + epochs * (computing + sending)) / 3600
    return {
        "processes": processes,
        "machines": machines,
        "graph, hours": graph / 3600,
        "epoch, hours": (computing + sending) / 3600,
        "of it sending, %": 100 * sending / (computing + sending),
        "all, hours": hours,
        "cost": hours * machines * machine.price,
        "memory of process 0, GB": memory(prices, method, sizes, first=True) / 1e9,
        "memory of a process, GB": memory(prices, method, sizes, first=False) / 1e9,
        "files, GB": 4.0 * sizes.n * sizes.q * (1 if method == "AN" else 2) / 1e9,
    }


def memory(prices: dict[str, Prices], method: str, sizes: Sizes, *, first: bool) -> float:
    """Bytes of a process whose features are on disk; the first one holds the index while it searches."""
    held = {**memory_counts(method, sizes), "features": 0.0}
    index = 4.0 * sizes.n * min(sizes.q, 128) if method == "SMILE" and first else 0.0
    return prices[f"{method}, memory"].predict(held) + index


def table(rows: list[dict[str, float]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| " + " | ".join(rows[0]) + " |"
    yield "|" + "---:|" * len(rows[0])
    for row in rows:
        yield "| " + " | ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in row.values()) + " |"


def main() -> None:
    """Read sizes, print one table per method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--neighbors", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--processes", default="1,16,64,256")
    parser.add_argument("--cores", type=int, default=16, help="of a machine; a process on each")
    parser.add_argument("--gigabits", type=float, default=10.0)
    parser.add_argument("--price", type=float, default=0.80, help="of a machine for an hour")
    options = parser.parse_args()
    prices = stored_prices(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
    sizes = Sizes(options.rows, options.features, options.labels, options.neighbors, options.batch)
    machine = Machine(options.cores, options.gigabits, options.price)
    for method in ("AN", "SMILE"):
        print(f"\n{method}, {sizes}, {options.epochs} epochs\n")
        missing = sorted(
            {f"{method}, epoch", f"{method}, memory", *(["graph"] if method == "SMILE" else [])} - set(prices)
        )
        if missing:
            print(f"no prices of {'; '.join(missing)} in results.json: run the section scale first")
            continue
        counts = [int(count) for count in options.processes.split(",")]
        rows = [plan(prices, method, sizes, p, epochs=options.epochs, machine=machine) for p in counts]
        print("\n".join(table(rows)))


if __name__ == "__main__":
    main()

"""What a fit would take at sizes that nobody measured, from the prices in results.json.

python benchmarks/at_scale.py     SMILE and AN, 100 million rows × 128 features × 1,000 labels
python benchmarks/at_scale.py --rows 5000000 --features 64 --labels 100 --processes 1,2 --epochs 1

The prices come from `make bench BENCH='--only scale'`. A process is one core. Gradients go around a ring over
--gigabits of network a second; computing and sending do not overlap.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cost_model import Prices, Sizes, memory_counts, time_counts, traffic

HERE = Path(__file__).resolve().parent


def stored_prices(results: dict[str, Any]) -> dict[str, Prices]:
    """Return the fitted prices by case ("AN, epoch"), in seconds and bytes."""
    made: dict[str, dict[str, float]] = {}
    for line in results["sections"]["scale"]["records"]:
        if line["measure"].startswith("price of "):
            factor = 1e-9 if line["unit"] == "ns" else 1.0
            made.setdefault(line["case"], {})[line["measure"].removeprefix("price of ")] = factor * line["value"]
    return {case: Prices(prices) for case, prices in made.items()}


def plan(
    prices: dict[str, Prices], method: str, sizes: Sizes, processes: int, *, epochs: int, gigabits: float
) -> dict[str, float]:
    """Return hours and bytes for one number of processes that share the rows of every batch."""
    share = Sizes(-(-sizes.n // processes), sizes.q, sizes.c, sizes.k, max(1, sizes.batch // processes), sizes.hidden)
    computing = prices[f"{method}, epoch"].predict(time_counts(method, share))
    sending = sizes.steps * traffic(method, sizes, processes) * 8 / (gigabits * 1e9)
    graph = prices["graph"].predict({"comparisons": sizes.n**1.5 * sizes.q}) if method == "SMILE" else 0.0
    return {
        "processes": processes,
        "epoch, hours": (computing + sending) / 3600,
        "of it sending, %": 100 * sending / (computing + sending),
        "graph, core-hours": graph / 3600,
        "all epochs, core-hours": epochs * (computing + sending) * processes / 3600,
        "memory of a process, GB": prices[f"{method}, memory"].predict(memory_counts(method, share)) / 1e9,
    }


def table(rows: list[dict[str, float]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| " + " | ".join(rows[0]) + " |"
    yield "|" + "---:|" * len(rows[0])
    for row in rows:
        yield "| " + " | ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in row.values()) + " |"


def main() -> None:
    """Read sizes, print one table a method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--neighbors", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--processes", default="1,8,64,256")
    parser.add_argument("--gigabits", type=float, default=10.0)
    options = parser.parse_args()
    prices = stored_prices(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
    sizes = Sizes(options.rows, options.features, options.labels, options.neighbors, options.batch)
    for method in ("AN", "SMILE"):
        print(f"\n{method}, {sizes}, {options.epochs} epochs\n")
        counts = [int(count) for count in options.processes.split(",")]
        rows = [plan(prices, method, sizes, p, epochs=options.epochs, gigabits=options.gigabits) for p in counts]
        print("\n".join(table(rows)))


if __name__ == "__main__":
    main()

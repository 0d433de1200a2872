"""Section million: epochs and peak memory up to a million rows. Long."""

from importlib.util import find_spec

import peak
import problems
from bench_growth import make
from harness import exponent, left_out, record, spread

TITLE = "A million rows"
ABOUT = """
Generated mixtures with 128 features and 100 labels, batch 1024, hidden layer of 128 units. Each method and size runs
in its own process. The table has the seconds of the second of two epochs, and the peak memory of the whole process in
10⁹ bytes, including libraries, data and graph. SMILE's graph comes from the approximate search. Its time is listed
separately and is not part of an epoch.
"""
SIZES = (62_500, 125_000, 250_000, 500_000, 1_000_000)
Q, C, BATCH = 128, 100, 1024


def measure(options):
    if options.datasets is not None:
        return  # no data set plays a part here
    for method in ("AN", "SMILE"):
        if method == "SMILE" and find_spec("faiss") is None:
            yield left_out("SMILE", "faiss is not installed, and an exact search would take days")
            continue
        seconds = []
        for n in SIZES:
            run = peak.run(f"import bench_million\nresult = bench_million.one({method!r}, {n})")
            seconds.append(run["epoch"])
            case = f"{method}, {n} × {Q} × {C}"
            yield record(case, "seconds of an epoch", spread([run["epoch"]]), unit="s", raw=run["graph"])
            yield record(case, "peak memory", spread([run["megabytes"] / 1e3]), unit="GB", target="<= 6")
        case = f"{method}, n from {SIZES[0]} to {SIZES[-1]}"
        slope = spread([exponent(SIZES, seconds)])
        yield record(case, "growth exponent of an epoch in n", slope, unit="", target="<= 1.1")


def one(method, n):
    """Train on n rows; runs in a process of its own."""
    X, Y = problems.mixture(n, Q), problems.one_label_each(n, C)
    # Approximate even where "auto" would fall back on the exact search, which is quadratic.
    model = make(method, BATCH, graph_search="approximate").fit(X, Y)
    facts = model.history_.facts.get("graph", {})
    graph = {f"graph's {name}": [facts[name]] for name in ("seconds", "recall") if name in facts}
    return {"epoch": model.history_["seconds"][-1], "graph": graph}

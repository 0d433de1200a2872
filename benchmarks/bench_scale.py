"""Section scale: prices of a cost model fitted at some sizes, and how well they foretell sizes it has not seen."""

import time
from importlib.util import find_spec

import cost_model
import peak
import problems
from bench_growth import make
from cost_model import Prices, Sizes
from epochs import epoch_processor_seconds, step_seconds
from harness import left_out, record, spread

TITLE = "Cost model"
ABOUT = """
Seconds of an epoch, peak memory and seconds of the graph search, as sums of counts times prices (`cost_model.py`).
The prices are fitted to steps at fourteen sizes, and for memory to whole fits in their own processes. Then whole
epochs and fits at other sizes are measured and compared. Seconds are processor seconds of one thread, so other work
on the machine matters little. benchmarks/SIZING.md applies the prices to 100 million rows.
"""
BASE = {"n": 40_000, "q": 128, "c": 100, "k": 10, "batch": 1024}
#: One size changed at a time, and two together: what a price is fitted to.
CHANGES = (
    {},
    {"q": 32},
    {"q": 512},
    {"c": 20},
    {"c": 500},
    {"k": 5},
    {"k": 20},
    {"batch": 256},
    {"batch": 4096},
    {"q": 512, "c": 500},
    {"k": 20, "batch": 4096},
    {"c": 500, "batch": 256},
    {"hidden": 512},
    {"hidden": 512, "c": 500},
)
HELD_OUT = (
    Sizes(n=200_000, q=64, c=200, k=15, batch=512),
    Sizes(n=100_000, q=256, c=300, k=10, batch=2048, hidden=256),
)
MEMORY = (
    Sizes(n=20_000, q=128, c=100),
    Sizes(n=120_000, q=128, c=100),
    Sizes(n=60_000, q=512, c=100),
    Sizes(n=60_000, q=128, c=600),
    Sizes(n=120_000, q=128, c=100, k=40),
)
GRAPH = (35_000, 70_000, 140_000)
STEPS = 25


def measure(options):
    if options.datasets is not None:
        return  # no data set plays a part here
    if find_spec("faiss") is None:
        yield left_out("all", "faiss is not installed, and an exact search would take days")
        return
    for method in ("AN", "SMILE"):
        yield from _time(method, options.repeats)
        yield from _memory(method)
    yield from _graph()


def _time(method, repeats):
    points = [Sizes(**{**BASE, **change}) for change in CHANGES]
    seconds = [min(_step(method, point) for _ in range(repeats)) * point.steps for point in points]
    prices = cost_model.fit_prices([cost_model.time_counts(method, point) for point in points], seconds)
    yield from _prices(f"{method}, epoch", prices, "ns", 1e9)
    for sizes in HELD_OUT:
        X, Y = problems.mixture(sizes.n, sizes.q), problems.one_label_each(sizes.n, sizes.c)
        measured = min(epoch_processor_seconds(_model(method, sizes), X, Y, sizes.steps) for _ in range(repeats))
        predicted = prices.predict(cost_model.time_counts(method, sizes))
        yield _compared(f"{method}, epoch", sizes, predicted, measured, "s")


def _memory(method):
    measured = [_peak(method, sizes) for sizes in MEMORY]
    prices = cost_model.fit_prices([cost_model.memory_counts(method, sizes) for sizes in MEMORY], measured)
    yield from _prices(f"{method}, memory", prices, "bytes", 1.0)
    for sizes in HELD_OUT:
        predicted = prices.predict(cost_model.memory_counts(method, sizes))
        yield _compared(f"{method}, memory", sizes, predicted / 1e9, _peak(method, sizes) / 1e9, "GB")


def _graph():
    """The index has about 4√n cells and a row is compared with some of them, so that n^1.5·q is expected."""
    seconds = [_graph_seconds(n, BASE["q"]) for n in GRAPH]
    prices = cost_model.fit_prices([{"comparisons": n**1.5 * BASE["q"]} for n in GRAPH], seconds)
    yield from _prices("graph", prices, "ns", 1e9)
    n, q = 280_000, 64
    predicted = prices.predict({"comparisons": n**1.5 * q})
    yield _compared("graph", Sizes(n=n, q=q, c=2), predicted, _graph_seconds(n, q), "s")


def _model(method, sizes):
    graph = {"n_neighbors": sizes.k, "graph_search": "approximate"} if method == "SMILE" else {}
    return make(method, sizes.batch, **graph).set_params(network=[sizes.hidden])


def _step(method, sizes):
    X, Y = problems.mixture(sizes.n, sizes.q), problems.one_label_each(sizes.n, sizes.c)
    return step_seconds(_model(method, sizes), X, Y, min(STEPS, sizes.steps), clock=time.process_time)


def _peak(method, sizes):
    code = f"import bench_scale\nfrom cost_model import Sizes\nbench_scale.fit_once({method!r}, {sizes!r})"
    return peak.run(code)["megabytes"] * 1e6


def fit_once(method, sizes):
    """Fit for an epoch; runs in a process of its own."""
    X, Y = problems.mixture(sizes.n, sizes.q), problems.one_label_each(sizes.n, sizes.c)
    _model(method, sizes).set_params(max_epochs=1).fit(X, Y)


def _graph_seconds(n, q):
    from onepos.graph.neighbors import neighbor_graph

    X = problems.mixture(n, q)
    started = time.process_time()
    neighbor_graph(X, 10, metric="euclidean", search="approximate")
    return time.process_time() - started


def _prices(case, prices: Prices, unit, factor):
    for name, price in prices.by_count.items():
        yield record(case, f"price of {name}", spread([factor * price]), unit=unit)


def _compared(case, sizes, predicted, measured, unit):
    error = 100 * abs(predicted / measured - 1)
    raw = {f"predicted, {unit}": [predicted], f"measured, {unit}": [measured]}
    return record(f"{case}, {sizes}", "error of the prediction", spread([error]), unit="%", target="<= 25", raw=raw)

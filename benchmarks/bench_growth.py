"""Section growth: how the seconds of an epoch grow when one size doubles and the others stay."""

import problems
from epochs import epoch_seconds
from harness import alternate, exponent, record, spread

from onepos import AssumeNegativeClassifier, SMILEClassifier

TITLE = "Growth of an epoch"
ABOUT = """
The second epoch of a fit on a generated mixture, with batch 256 and a hidden layer of 128 units. The base is n =
20,000 rows, q = 128 features, c = 100 labels and k = 10 neighbours. One of these sizes at a time is doubled twice.
The exponent is the slope of log seconds over log size. 1 is linear; below 1, part of the work does not depend on that
size.
"""
BASE = {"n": 20_000, "q": 128, "c": 100, "k": 10}
FACTORS = (1, 2, 4)


def measure(options):
    if options.datasets is not None:
        return  # no data set plays a part here
    # The base belongs to all four series; every series measures its own, next to the sizes it is compared with.
    for size in BASE:
        points = [{**BASE, size: factor * BASE[size]} for factor in FACTORS]
        calls = {}
        for point in points:
            X, Y = problems.mixture(point["n"], point["q"]), problems.one_label_each(point["n"], point["c"])
            for method in ("SMILE",) if size == "k" else ("AN", "SMILE"):
                model = make(method, 256, n_neighbors=point["k"])
                calls[method, point[size]] = lambda model=model, X=X, Y=Y: epoch_seconds(model, X, Y)
        raw = alternate(calls, options.repeats)
        for method in dict.fromkeys(key[0] for key in calls):
            values = [point[size] for point in points]
            series = [raw[method, value] for value in values]
            slopes = spread([exponent(values, seconds) for seconds in zip(*series, strict=True)])
            shown = {f"{size}={value}, s": seconds for value, seconds in zip(values, series, strict=True)}
            yield record(f"{method}, {size} doubled twice", "growth exponent", slopes, unit="", raw=shown)


def make(method, batch_size, **graph):
    """A classifier whose network does not widen with the number of labels, so that one size changes at a time."""
    common = {"network": [128], "batch_size": batch_size, "max_epochs": 2, "early_stopping": False, "random_state": 0}
    if method == "AN":
        return AssumeNegativeClassifier(**common)
    return SMILEClassifier(warm_up_epochs=0, **graph, **common)

"""Section graph: our exact neighbour search against scikit-learn's, and the approximate one against ours."""

from importlib import import_module
from statistics import median

import numpy as np
import problems
from harness import alternate, exponent, left_out, ratio, record, seconds_of, spread
from sklearn.neighbors import NearestNeighbors

from onepos.graph.neighbors import nearest_neighbors

TITLE = "Neighbour graph"
ABOUT = """
The 10 nearest other rows of every row. Exact: ours against `NearestNeighbors(algorithm="brute")` on the scaled
features of each data set. Neighbours count as the same if their distances are equal, so ties may be broken either
way. Approximate: generated mixtures with 128 features; recall is measured against all distances in float64 for 500
rows.
"""
DATASETS = ("yeast", "corel5k", "rcv1-s1", "corel16k-s1", "delicious", "tmc2007")
K, Q, SAMPLE = 10, 128, 500
SIZES = (20_000, 50_000, 100_000, 200_000)
#: Exact search is quadratic: above this size once is enough.
REPEATED_BELOW = 60_000


def measure(options):
    yield from problems.on_each(options.choose(DATASETS), lambda name: _exact(name, options.repeats))
    if options.datasets is None:
        yield from _approximate(options.repeats)


def _exact(name, repeats):
    X = problems.dense_features(name)
    found = {}

    def ours():
        found["ours"] = nearest_neighbors(X, K)[0]

    def theirs():
        search = NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=1).fit(X)
        found["scikit-learn"] = search.kneighbors()[1]

    raw = alternate({"ours": seconds_of(ours), "scikit-learn": seconds_of(theirs)}, repeats)
    yield record(f"{name}, exact", "scikit-learn / ours, s", ratio(raw["scikit-learn"], raw["ours"]), raw=raw)
    # Rounded like single precision, in which scikit-learn holds the features.
    mine, other = (distances(X, found[key]) for key in ("ours", "scikit-learn"))
    differing = int((np.abs(mine - other) > 1e-6 * (1 + mine)).any(axis=1).sum())
    yield record(
        f"{name}, exact", "rows with other neighbours, ties aside", spread([differing]), unit="", target="<= 0"
    )


def distances(X, indices):
    """Sorted float64 distances of every row to its listed neighbours, a thousand rows at a time."""
    result = np.empty(indices.shape)
    for start in range(0, len(X), 1000):
        part = slice(start, start + 1000)
        difference = X[part, None, :].astype(np.float64) - X[indices[part]]
        result[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    return np.sort(result, axis=1)


def recall(X, indices, sample):
    """Share of the true nearest neighbours of the sampled rows that were found."""
    wide = X.astype(np.float64)
    squares = np.einsum("ij,ij->i", wide, wide)
    hits = 0
    for row in sample:
        away = squares - 2 * (wide @ wide[row])
        away[row] = np.inf
        hits += len(np.intersect1d(np.argpartition(away, K - 1)[:K], indices[row]))
    return hits / (K * len(sample))


def _approximate(repeats):
    try:
        approximate_graph = import_module("onepos.graph.approximate").approximate_graph
    except ImportError as error:
        yield left_out("mixtures, approximate", f"onepos.graph.approximate cannot be imported here ({error})")
        return
    times = []
    for n in SIZES:
        X = problems.mixture(n, Q)
        found = {}

        def approximate(X=X, found=found):
            found["indices"] = approximate_graph(X, K).indices

        def exact(X=X):
            nearest_neighbors(X, K)

        calls = {"exact": seconds_of(exact), "approximate": seconds_of(approximate)}
        raw = alternate(calls, repeats if n < REPEATED_BELOW else 1)
        times.append(median(raw["approximate"]))
        case = f"mixture {n} × {Q}"
        yield record(case, "exact / approximate, s", ratio(raw["exact"], raw["approximate"]), raw=raw)
        sample = np.random.default_rng(1).choice(n, SAMPLE, replace=False)
        share = recall(X, found["indices"], sample)
        yield record(
            case, f"recall of the approximate search, {SAMPLE} rows", spread([share]), unit="", target=">= 0.95"
        )
    growth = spread([exponent(SIZES, times)])
    case = f"mixtures, n from {SIZES[0]} to {SIZES[-1]}"
    raw = {f"n={n}, s": [seconds] for n, seconds in zip(SIZES, times, strict=True)}
    yield record(case, "growth exponent of the approximate search in n", growth, unit="", target="< 2", raw=raw)

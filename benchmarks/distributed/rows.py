"""Made-up rows on disk: a mixture with many clusters, one observed label per row."""

import numpy as np

BLOCK = 100_000


def write(folder, n, n_features, n_labels, n_trained=None):
    """Write X.npy (float32) and Y.npy (int8) block by block; the first ``n_trained`` of a random order have a label."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    # Like features learnt by a network: clusters in a few directions, noise in all.
    n_clusters = max(10, n // 2000)
    centers = (rng.normal(size=(n_clusters, 16)) @ rng.normal(size=(16, n_features))).astype(np.float32)
    of_cluster = rng.integers(n_labels, size=n_clusters)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(n, n_features))
    Y = np.lib.format.open_memmap(folder / "Y.npy", mode="w+", dtype=np.int8, shape=(n, n_labels))
    share = 1.0 if n_trained is None else min(1.0, n_trained / n)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        size = rows.stop - rows.start
        cluster = rng.integers(n_clusters, size=size)
        X[rows] = centers[cluster] + rng.normal(size=(size, n_features)).astype(np.float32)
        label = np.where(rng.random(size) < 0.8, of_cluster[cluster], rng.integers(n_labels, size=size))
        seen = rng.random(size) < share
        Y[rows] = 0
        Y[start + np.flatnonzero(seen), label[seen]] = 1
    X.flush()
    Y.flush()

"""Rows to review, made by hand or drawn."""

import numpy as np

LABELS = ["beach", "dog", "night", "snow"]
#: By hand, with the threshold 0.5: dog and night are suggested for "one", night for "two", nothing for "three".
SMALL = {
    "ids": ["one", "two", "three"],
    "observed": ["beach", "dog", None],
    "labels": LABELS,
    "probabilities": np.array([[0.99, 0.62, 0.81, 0.40], [0.45, 0.90, 0.70, 0.005], [0.02, 0.20, 0.05, 0.10]]),
    "texts": ["Waves at night", "A dog sleeps", "Nothing much"],
}


def large(n_examples=5000, n_labels=50, seed=0):
    """Rows as many as the page is made for."""
    rng = np.random.default_rng(seed)
    labels = [f"label {number:02d}" for number in range(n_labels)]
    words = np.array(["a", "river", "runs", "past", "the", "old", "mill", "while", "somebody", "counts", "boats"])
    return {
        "ids": [f"example-{number:05d}" for number in range(n_examples)],
        "observed": [labels[number] for number in rng.integers(n_labels, size=n_examples)],
        "labels": labels,
        "probabilities": rng.beta(0.4, 2.0, size=(n_examples, n_labels)).astype(np.float32),
        "texts": [" ".join(rng.choice(words, size=80)) for _ in range(n_examples)],
    }

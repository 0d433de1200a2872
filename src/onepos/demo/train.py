"""One method, one run: what it is told, how it is trained, how well it does."""

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepos.datasets import make_single_positive
from onepos.demo.progress import Ticker
from onepos.demo.scenes import Scenes
from onepos.metrics import evaluate
from onepos.registry import METHODS, make_classifier


def train_once(
    key: str, seed: int, scenes: Scenes, settings: Mapping[str, Any], ticker: Ticker
) -> tuple[dict[str, Any], Any, NDArray[np.uint8]]:
    """Train one method once; returns its row of the table, the model and the labels it saw."""
    (X, Y), (X_validation, Y_validation) = scenes.train, scenes.validation
    full = key == "bce"
    draws = np.random.SeedSequence(seed).generate_state(2)
    observed = make_single_positive(Y, random_state=int(draws[0]))
    held = make_single_positive(Y_validation, random_state=int(draws[1]))
    started = time.perf_counter()
    ticker.tick(0.0)
    if key in ("frequency", "linear"):
        model: Any = make_classifier(key, random_state=seed)
        model.fit(X, observed, validation=(X_validation, held))
    else:
        model = make_classifier(key, random_state=seed, **settings)
        with warnings.catch_warnings():
            # The loop turns Ctrl-C into a warning and a model; here it means that the user wants to leave.
            warnings.filterwarnings("ignore", message="training was interrupted")
            model.fit(
                X,
                Y if full else observed,
                validation=(X_validation, Y_validation if full else held),
                validation_labels="full" if full else "single",
                callbacks=[ticker],
            )
        if model.history_.facts.get("stopped") == "interrupted":
            raise KeyboardInterrupt
    seconds = time.perf_counter() - started
    X_test, Y_test = scenes.test
    row = {"method": key, "name": METHODS[key].name, "full_labels": full, "seed": seed, "seconds": seconds}
    return row | evaluate(Y_test, model.predict_proba(X_test)), model, observed

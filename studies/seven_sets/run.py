"""Part of the paper's evaluation: seven data sets, fourteen methods, five trials, everything chosen on validation data.

    python studies/seven_sets/run.py [--jobs N] [--only DATASET,…] [--methods KEY,…]

Resumable: a finished cell (data set, method, trial) is one line of results.jsonl and is not run again. Protocol, as
in the paper where it says: 80/10/10 split by trial, one positive drawn uniformly for each training row, validation and
test fully labelled, the epoch and the setting chosen by validation average precision, five trials. The test part of a
trial is scored once, with the chosen model. Every neural method tries three settings (see settings()); data sets with
fewer than TUNE_EACH_TRIAL_BELOW rows choose anew in each trial, larger ones keep the choice of trial 0.
"""

import argparse
import json
import os
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # one thread a cell; cells run side by side

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
DATASETS = ("CAL500", "image", "scene", "yeast", "corel5k", "rcv1-s1", "tmc2007")
METHODS = (
    *("frequency", "linear", "glocal", "mlml", "d2ml", "softmax", "an", "an-ls", "wan"),
    *("role", "smile-si", "smile-code", "smile", "bce"),
)
TRIALS = range(5)
TUNE_EACH_TRIAL_BELOW = 3000
LARGE = 10_000


def common(n_rows: int) -> dict[str, Any]:
    """Return what all neural methods share: 40 epochs at most, stopped after 10 without a better one (large: 5)."""
    return {"max_epochs": 40, "patience": 5 if n_rows >= LARGE else 10}


def settings(method: str, dataset: str, n_rows: int, sparse: bool) -> list[dict[str, Any]]:
    """Return what a method tries: three settings for every neural one; features that come sparse are not scaled.

    Dense features come on scales that suit min-max on some sets and standardisation on others, so both are tried. The
    third setting is the method's own: SMILE's other use of the mean number of positives, dropout for the rest. What
    the authors of SMILE released is tried exactly as printed for the data set (ten epochs, features as they come,
    hidden layers as wide as there are labels) and with its constants in two of the common settings.
    """
    if method == "smile-code":
        from onepos.methods._released_settings import RELEASED_SETTINGS, released_settings

        printed, constants = released_settings(dataset), dict(RELEASED_SETTINGS[dataset])
        shared = settings("an", dataset, n_rows, sparse)[:2]
        return [{**printed, "scale": "none"}, *({**constants, **setting} for setting in shared)]
    if method == "frequency":
        return [{}]
    if method in ("linear", "glocal", "mlml", "d2ml"):  # several strengths are tried inside each
        scaled = [{"scale": scale} for scale in (["none"] if sparse else ["minmax", "standard"])]
        return scaled + ([{**scaled[0], "kernel": "rbf"}] if method == "d2ml" else [])
    if sparse:
        base = {**common(n_rows), "scale": "none", "learning_rate": 1e-3, "dropout": 0.5}
        own = {"cardinality_correction": "bayes"} if method == "smile" else {"learning_rate": 3e-4}
        return [base, {**base, "dropout": 0.0}, {**base, **own}]
    standard = {**common(n_rows), "scale": "standard", "learning_rate": 1e-3}
    own = {"cardinality_correction": "bayes"} if method == "smile" else {"dropout": 0.5}
    return [{**common(n_rows), "scale": "minmax", "learning_rate": 3e-3}, standard, {**standard, **own}]


def run_cell(dataset: str, method: str, trial: int, chosen: dict[str, Any] | None) -> dict[str, Any]:
    """Fit every setting (or the one already chosen), keep the best on validation, score it once on the test part."""
    import torch

    import onepos
    from onepos.datasets import load_dataset, make_single_positive, split
    from onepos.metrics import evaluate

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    data = load_dataset(dataset)
    parts = split(data.X, data.Y, random_state=trial)
    observed = make_single_positive(parts.Y_train, random_state=1000 + trial)
    target = parts.Y_train if method == "bce" else observed
    tried, best, best_score = [], None, -1.0
    grid = [chosen] if chosen is not None else settings(method, dataset, len(data.Y), not hasattr(data.X, "__array__"))
    for setting in grid:
        seed = {} if method == "frequency" else {"random_state": trial}
        model = onepos.make_classifier(method, **setting, **seed)
        model.fit(parts.X_train, target, validation=(parts.X_val, parts.Y_val), validation_labels="full")
        validation = evaluate(parts.Y_val, model.predict_proba(parts.X_val))
        tried.append({"setting": setting, **validation})
        if validation["average_precision"] > best_score:
            best, best_score, chosen = model, validation["average_precision"], setting
    assert best is not None
    history = getattr(best, "history_", None)
    return {
        "dataset": dataset,
        "method": method,
        "trial": trial,
        "setting": chosen,
        "best_epoch": history.facts.get("best_epoch") if history is not None else None,
        "validation_average_precision": best_score,
        "test": evaluate(parts.Y_test, best.predict_proba(parts.X_test)),
        "tried": tried,
        "seconds": round(time.perf_counter() - started, 1),
    }


def load_results() -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return finished cells by (data set, method, trial)."""
    if not RESULTS.exists():
        return {}
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {(row["dataset"], row["method"], row["trial"]): row for row in rows}


def pending(datasets: list[str], methods: list[str]) -> list[tuple[str, str, int, dict[str, Any] | None]]:
    """Cells that can run now: trial 0 first where later trials take over its choice."""
    from onepos.datasets import list_datasets

    sizes = list_datasets().set_index("name")["instances"]
    done = load_results()
    cells = []
    for trial, dataset, method in product(TRIALS, datasets, methods):
        if (dataset, method, trial) in done:
            continue
        chosen = None
        if trial and sizes[dataset] >= TUNE_EACH_TRIAL_BELOW:
            first = done.get((dataset, method, 0))
            if first is None:
                continue
            chosen = first["setting"]
        cells.append((dataset, method, trial, chosen))
    return cells


def main() -> None:
    """Run what is missing, appending each finished cell as one line."""
    from joblib import Parallel, delayed

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default=",".join(DATASETS))
    parser.add_argument("--methods", default=",".join(METHODS))
    arguments = parser.parse_args()
    datasets, methods = arguments.only.split(","), arguments.methods.split(",")
    while cells := pending(datasets, methods):
        runs = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
            delayed(run_cell)(*cell) for cell in cells
        )
        for row in runs:
            with RESULTS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            score = row["test"]["average_precision"]
            cell = f"{row['dataset']:>10} {row['method']:<10} trial {row['trial']}"
            print(f"{cell}  AP {score:.4f}  {row['seconds']} s", flush=True)


if __name__ == "__main__":
    main()

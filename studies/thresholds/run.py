"""What a threshold is worth: label sets at ½, and by each fact that can stand in for complete labels.

    python studies/thresholds/run.py

Three trials on the splits of smile-paper. Models are fitted with one positive per row only, epochs chosen on
held-out single positives. Thresholds are chosen on the validation rows: without their labels (m true, m estimated,
rates), or with those of 100 of them. Test rows are scored once. Rows go to results.csv; docs/thresholds.md shows them.
"""

import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.metrics import f1_score

from onepos import make_classifier
from onepos.label_sets.thresholds import estimate_n_positives, label_rates
from onepos.rows.scaling import fit_scaler
from onepos_studies.study.cells import load_trial

RESULTS = Path(__file__).parent / "results.csv"
DATASETS = ("CAL500", "image", "scene", "yeast", "corel5k", "rcv1-s1", "tmc2007")
SAMPLE = 100


def measure(name: str, method: str, trial: int) -> Iterator[dict[str, Any]]:
    """Fit one model and score its sets under every rule."""
    data = load_trial(name, 0, trial, (0.8, 0.1, 0.1), "uniform", 1.0)
    large = len(data.observed) > 10_000
    scale = "none" if sparse.issparse(data.X_train) else "standard"
    settings = {"scale": scale, "batch_size": 64 if large else 16, "max_epochs": 25, "patience": 4 if large else 8}
    if sparse.issparse(data.X_train):
        settings["dropout"] = 0.5
    model = make_classifier(method, random_state=trial, **settings).fit(data.X_train, data.observed)
    true_m = float(data.Y_train.sum(axis=1).mean())
    features = fit_scaler(data.X_train, scale).transform(data.X_train)
    estimated = estimate_n_positives(features, data.observed)
    sample = np.random.default_rng(trial).permutation(data.X_val.shape[0])[:SAMPLE]
    rules: dict[str, dict[str, Any] | None] = {
        "½": None,
        "m true": {"n_positives": true_m},
        "m estimated": {"n_positives": min(estimated, data.Y_train.shape[1])},
        "rates": {"rates": label_rates(data.observed, true_m)},
        "sample": {"labels": np.asarray(data.Y_val)[sample]},
    }
    truth = np.asarray(data.Y_test)
    for rule, facts in rules.items():
        if facts is None:
            sets = (model.predict_proba(data.X_test) >= 0.5).astype(int)
        else:
            model.choose_thresholds(data.X_val[sample] if rule == "sample" else data.X_val, **facts)
            sets = model.predict(data.X_test)
        yield {
            "dataset": name,
            "method": method,
            "trial": trial,
            "rule": rule,
            "m": true_m,
            "m_estimated": estimated,
            "hamming_loss": float(np.mean(sets != truth)),
            "f1": float(f1_score(truth, sets, average="samples", zero_division=1.0)),
            "set_size": float(sets.sum(axis=1).mean()),
        }


def main() -> None:
    """Run what is missing; each finished trial is in the file."""
    warnings.simplefilter("ignore")
    rows = pd.read_csv(RESULTS).to_dict("records") if RESULTS.exists() else []
    done = {(row["dataset"], row["method"], row["trial"]) for row in rows}
    for name, method, trial in product(DATASETS, ("an", "smile"), range(3)):
        if (name, method, trial) not in done:
            rows += measure(name, method, trial)
            pd.DataFrame(rows).to_csv(RESULTS, index=False, float_format="%.5f")
            print(name, method, trial, *(f"{r['rule']}: {r['hamming_loss']:.3f} {r['f1']:.3f}" for r in rows[-5:]))


if __name__ == "__main__":
    main()

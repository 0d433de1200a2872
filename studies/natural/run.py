"""Tables whose tags people chose: what complete rows bring, and what more tags bring.

    python studies/natural/run.py FOLDER [--methods logistic,forest,auto] [--budget 60] [--draws 5]

FOLDER has `NAME_records.csv.gz` (columns id, place, environment, species) and `NAME_sites.csv.gz` (id, environment, all
species joined by ;) of the six regions of Elith et al. 2020. Models learn from the records, single or with those of a
place joined. Sites with a species are dealt into complete rows for the correction and test rows. Draw n is the same
for all methods. Hold-outs inside of training keep records of one place together. `logistic` and `forest` also learn
from a half and a quarter of the places. Finished fits are in results.csv; docs/chosen-tags.md shows them.
"""

import argparse
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onepos import TableModel
from onepos.label_sets.calibration import fit_calibration
from onepos.label_sets.choice import even_shares
from onepos.label_sets.thresholds import cardinality_threshold, label_sets
from onepos.methods.registry import METHODS
from onepos.metrics import row_values

RESULTS, SHARES = (Path(__file__).parent / name for name in ("results.csv", "shares.csv"))
TABLES = ("nz", "can", "awt-plant", "awt-bird", "sa", "swi")
SIZES = (20, 50, 100, 200)
#: At most this share of the sites is given away for the correction.
MOST_SITES = 1 / 3
SCIKIT_LEARN = {
    "scikit-learn LR": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "scikit-learn forest": lambda: RandomForestClassifier(300, min_samples_leaf=2, random_state=0),
    "scikit-learn neighbours": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(20)),
}
#: Methods that also learn from a part of the tags.
OF_FEWER_TAGS = ("logistic", "forest")
NO_SHARE = 1e-4


def fit(method: str, records: pd.DataFrame, sites: pd.DataFrame, *, group: bool, budget: float) -> dict[str, Any]:
    """Fit a method on records; return its scores of the sites, its sets before the correction, and their labels."""
    params: dict[str, Any] = {"time_budget": budget} if method == "auto" else {}
    own = method in METHODS
    how: dict[str, Any] = {"group": "place"} if group else {"drop": "place"}
    model = TableModel(method=method if own else "frequency", params=params, id="id", validation_fraction=0.0, **how)
    model.fit(records, label="species")
    truth = sites["species"].str.get_dummies(";").reindex(columns=model.labels_, fill_value=0).to_numpy() > 0
    features = model.encoder_.transform(sites)
    if own:
        estimator = model.estimator_
        scores = estimator._ranking(estimator._check_features(features))
        return {"scores": scores, "sets": model.predict(sites).to_numpy(), "truth": truth}
    other = SCIKIT_LEARN[method]().fit(model.encoder_.transform(records), records["species"])
    shares = np.full(truth.shape, NO_SHARE)
    shares[:, [model.labels_.index(str(name)) for name in other.classes_]] += other.predict_proba(features)
    scores = np.log(shares / shares.sum(axis=1, keepdims=True))
    best = scores >= np.sort(scores, axis=1)[:, -2:-1]  # two labels per row, as by default
    return {"scores": scores, "sets": best.astype(int), "truth": truth}


def measure(scores: NDArray[Any], sets: NDArray[Any], truth: NDArray[Any]) -> dict[str, float]:
    """Return average precision of the ranking, and micro-F1 and size of the sets, as a share of the true one."""
    precision = np.nanmean(row_values(truth, scores, ("average_precision",))["average_precision"])
    f1 = 2 * (sets * truth).sum() / (sets.sum() + truth.sum())
    return {"average_precision": float(precision), "f1": float(f1), "size": float(sets.sum() / truth.sum())}


def corrections(scores: NDArray[Any], sets: NDArray[Any], truth: NDArray[Any], draws: int) -> Iterator[dict[str, Any]]:
    """Yield measures without a correction and with those by each number of complete rows, on the same test rows."""
    sizes = sorted({min(size, int(MOST_SITES * len(truth))) for size in SIZES})
    for draw, size in product(range(draws), sizes):
        order = np.random.default_rng(draw).permutation(len(truth))
        rows, rest = order[:size], order[size:]
        found = fit_calibration(scores[rows], truth[rows])
        probabilities = expit(found.apply(scores))
        cut = cardinality_threshold(probabilities[rows], float(truth[rows].sum(axis=1).mean()), at_least_one=True)
        corrected = label_sets(probabilities[rest], cut, at_least_one=True)
        before = measure(scores[rest], sets[rest], truth[rest])
        after = measure(probabilities[rest], corrected, truth[rest])
        yield {"rows": size, "draw": draw, **after, **{f"{name}_before": value for name, value in before.items()}}


def shares(folder: Path) -> pd.DataFrame:
    """Return each label's share of the tags, and the share that it would have if tags were drawn evenly."""
    parts = []
    for name in TABLES:
        tagged = pd.read_csv(folder / f"{name}_records.csv.gz")["species"].value_counts(normalize=True).sort_index()
        sites = pd.read_csv(folder / f"{name}_sites.csv.gz")["species"].dropna().str.get_dummies(";")
        even = even_shares(sites.reindex(columns=tagged.index, fill_value=0))
        parts.append(pd.DataFrame({"table": name, "label": tagged.index, "tagged": tagged.to_numpy(), "even": even}))
    return pd.concat(parts)


def main() -> None:
    """Run what is missing; each finished fit is in the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    every = [key for key, one in METHODS.items() if not one.load_class()._y_is_full] + list(SCIKIT_LEARN)
    parser.add_argument("--methods", default=",".join(every))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--draws", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    shares(given.folder).to_csv(SHARES, index=False, float_format="%.5f")
    rows = pd.read_csv(RESULTS).to_dict("records") if RESULTS.exists() else []
    done = {(row["table"], row["method"], row["group"], row["tags"]) for row in rows}
    for name, method, group in product(given.tables.split(","), given.methods.split(","), (False, True)):
        records = pd.read_csv(given.folder / f"{name}_records.csv.gz")
        sites = pd.read_csv(given.folder / f"{name}_sites.csv.gz").dropna(subset="species").reset_index(drop=True)
        for tags in (1.0, 0.5, 0.25) if method in OF_FEWER_TAGS and not group else (1.0,):
            if (name, method, group, tags) in done or (group and method in SCIKIT_LEARN):
                continue
            places = np.random.default_rng(0).permutation(records["place"].unique())
            part = records[records["place"].isin(places[: int(tags * len(places))])].reset_index(drop=True)
            which = {"table": name, "method": method, "group": group, "tags": tags, "records": len(part)}
            fitted = fit(method, part, sites, group=group, budget=given.budget)
            new = [which | row for row in corrections(**fitted, draws=given.draws)]
            rows += new
            pd.DataFrame(rows).to_csv(RESULTS, index=False, float_format="%.5f")
            means = pd.DataFrame(new).groupby("rows")[["average_precision_before", "average_precision"]].mean().round(3)
            print(*which.values(), means.to_dict("index"), flush=True)


if __name__ == "__main__":
    main()

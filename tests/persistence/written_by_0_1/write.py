"""Write the files of this folder with version 0.1 of onepos (commit 4cb8c0f): python write.py FOLDER.

The script is kept as a record. The current version must open the files; it need not be able to write them.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from onepos.columns import TableModel

import onepos

NETWORK = {"network": (4,), "max_epochs": 2, "random_state": 0}
SMILE = {**NETWORK, "encoder_hidden": 4, "latent_size": 2, "decoder_hidden": 3, "n_neighbors": 3}
SETTINGS = {
    "an": {**NETWORK, "input_dropout": 0.1},
    "smile": SMILE,
    "smile-code": NETWORK,
    "role": NETWORK,
    "capped": NETWORK,
    "linear": {"l2": 1.0},
    "mlml": {"instance_smoothness": 1.0},
    "d2ml": {"rank_weight": 1.0},
    "glocal": {"feature_l2": 1.0, "random_state": 0},
    "frequency": {},
    "auto": {"methods": ("linear", "wan"), "n_folds": 2, "time_budget": None, "random_state": 0},
}
LABELS = ["red", "green", "blue"]


def rows(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Features and one observed label per row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(3)
    score = X @ np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]]) + rng.normal(size=(n, 3))
    Y = np.eye(3, dtype=np.int8)[score.argmax(axis=1)]
    return pd.DataFrame(X, columns=["a", "b", "c"]), pd.DataFrame(Y, columns=LABELS)


def table(n: int, seed: int) -> pd.DataFrame:
    """Numbers with a gap, a category, words and a tag per row."""
    X, Y = rows(n, seed)
    rng = np.random.default_rng(seed)
    frame = X[["a", "b"]].assign(
        kind=rng.choice(["north", "south", "west"], size=n),
        words=[" ".join(rng.choice(["sun", "sea", "snow", "street"], size=2)) for _ in range(n)],
        tag=[LABELS[j] for j in Y.to_numpy().argmax(axis=1)],
    )
    frame.loc[1, "b"] = np.nan
    return frame


def main(folder: Path) -> None:
    """Write the model files, and what the models predict for a few rows."""
    X, Y = rows(40, 0)
    new, _ = rows(6, 1)
    expected = {}
    models = {key: onepos.make_classifier(key, **settings).fit(X, Y) for key, settings in SETTINGS.items()}
    models["calibrated"] = onepos.make_classifier("an", **NETWORK).fit(X, Y).calibrate(*rows(30, 2))
    models["thresholds"] = onepos.make_classifier("linear", l2=1.0).fit(X, Y).choose_thresholds(X, n_positives=1.5)
    for name, model in models.items():
        model.save(folder / f"{name}.onepos")
        expected[name] = {"probabilities": model.predict_proba(new).tolist(), "sets": model.predict(new).tolist()}
    model = TableModel().fit(table(40, 0), label="tag", text="words", method="an", params=NETWORK, random_state=0)
    model.save(folder / "table.onepos")
    frame = table(6, 1).drop(columns="tag")
    expected["table"] = {"probabilities": np.asarray(model.predict_proba(frame)).tolist()}
    stored = {"version": onepos.__version__, "rows": new.to_dict("list"), "models": expected}
    stored["table"] = json.loads(frame.to_json(orient="split"))
    (folder / "expected.json").write_text(json.dumps(stored, indent=1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))

"""What each kind of column adds on the Netflix table: rows held out from the training rows, or once the test rows.

python benchmarks/columns.py           average precision on two inner splits, one line per change; docs/tables.md has it
python benchmarks/columns.py --test    all columns, test rows
"""

import argparse
import warnings
from unittest import mock

import numpy as np
from default_path import netflix_frame, netflix_rows

import onepos
from onepos.metrics import average_precision
from onepos.table import ColumnEncoder

NO_FEATURES = ["show_id", "listed_in", "tag"]
NAMES = ["director", "principal_cast"]
#: Change → columns to drop, settings of the encoder, constants to replace.
CHANGES = {
    "all columns": ([], {}, {}),
    "without dates": (["date_added"], {}, {}),
    "without numbers with units": (["duration"], {}, {}),
    "without names": (NAMES, {}, {}),
    "names in 5 rows or more, at most 1,000": ([], {"max_values": 1_000}, {"words.LEAST_ROWS": 5}),
    "rare names not hashed": ([], {}, {"words._REST": np.inf}),
    "all columns weigh the same beside text": ([], {}, {"encoder._BESIDE_TEXT": 1.0}),
    "all but text and categories dropped": ([*NAMES, "country", "date_added", "duration", "release_year"], {}, {}),
}


def encoded(frame, train, held, drop, settings, constants):
    """Features of both parts, by an encoder that saw the first."""
    patches = [mock.patch(f"onepos.table.{name}", value) for name, value in constants.items()]
    for patch in patches:
        patch.start()
    encoder = ColumnEncoder(text=["description", "title"], drop=[*NO_FEATURES, *drop], **settings)
    made = encoder.fit(frame.iloc[train]).transform(frame.iloc[train]), encoder.transform(frame.iloc[held])
    for patch in patches:
        patch.stop()
    return made


def scores(frame, train, held, change):
    """Average precision of each method on the held-out rows."""
    genres = frame["listed_in"].str.split(", ")
    labels = sorted({genre for row in genres for genre in row})
    Y = np.array([[label in row for label in labels] for row in genres], dtype=np.int8)
    observed = np.array([[label == tag for label in labels] for tag in frame["tag"]], dtype=np.int8)
    X, X_held = encoded(frame, train, held, *CHANGES[change])
    found = []
    for method in ("logistic", "capped"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = onepos.make_classifier(method, random_state=0).fit(X, observed[train])
        found.append(average_precision(Y[held], model.decision_function(X_held)))
    return found


def inner_splits(train):
    for seed in (100, 101):
        order = np.random.default_rng(seed).permutation(train)
        yield np.sort(order[1500:]), np.sort(order[:1500])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="store_true", help="Score the test rows, with all columns.")
    frame = netflix_frame()
    train, test = netflix_rows(frame)
    if parser.parse_args().test:
        parts, changes = [(train, test)], ["all columns"]
    else:
        parts, changes = list(inner_splits(train)), list(CHANGES)
    print("| columns | `logistic` | `capped` |\n|---|---|---|")
    for change in changes:
        mean = np.mean([scores(frame, *part, change) for part in parts], axis=0)
        print(f"| {change} | " + " | ".join(f"{value:.3f}".lstrip("0") for value in mean) + " |", flush=True)

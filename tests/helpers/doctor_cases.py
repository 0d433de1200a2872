"""Clean data, and for every code the same data made ill in one way."""

import numpy as np
import pandas as pd

from onepos.datasets import make_known_posterior

LABELS = np.array(["beach", "city", "night", "snow"])
#: What clean multi-label data may show: a note that is always there, and nothing else.
ALWAYS = {"cardinality-bound"}


def clean(n=400, seed=0):
    """Known posterior with four labels: numeric columns and one column of categories that goes with the first."""
    made = make_known_posterior(n, 5, 4, n_positives=1.8, signal=2.0, random_state=seed)
    frame = pd.DataFrame(made.X.astype(float), columns=["red", "green", "blue", "edges", "depth"])
    frame["camera"] = np.array(["old", "new", "phone"])[np.digitize(made.X[:, 0], [-0.5, 0.5])]
    return frame, pd.Series(LABELS[made.observed.argmax(axis=1)])


def indicator(tags):
    return pd.DataFrame((tags.to_numpy()[:, None] == LABELS).astype(int), columns=LABELS)


def exclusive(n=300, seed=0):
    """Four well separated classes: one label per row in truth."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(4, size=n)
    centres = 5 * np.eye(4, 5)
    return pd.DataFrame(centres[codes] + rng.normal(size=(n, 5)), columns=list("abcde")), pd.Series(LABELS[codes])


def sentences(n, seed=0):
    words = ["sand", "wave", "tower", "street", "moon", "star", "ice", "slope", "cloud", "tree", "bird", "road"]
    return [" ".join(row) for row in np.random.default_rng(seed).choice(words, size=(n, 8))]


def _with(**columns):
    def make():
        features, tags = clean()
        values = {name: value(features, tags) if callable(value) else value for name, value in columns.items()}
        return features.assign(**values), tags, {}

    return make


def _tags(change):
    def make():
        features, tags = clean()
        return features, change(tags.copy()), {}

    return make


def _put(tags, rows, value):
    tags.iloc[rows] = value
    return tags


def _unobserved(tags):
    return indicator(tags).assign(fog=0)


def _two_in_a_row(tags):
    frame = indicator(tags)
    frame.iloc[0] = [1, 1, 0, 0]
    return frame


def _stacked(rows, tags_of=lambda tags: tags):
    features, tags = clean()
    more = pd.concat([features, features.iloc[:rows]], ignore_index=True)
    return more, pd.concat([tags, tags_of(tags.iloc[:rows])], ignore_index=True), {}


def _index():
    features, tags = clean()
    return features, tags.sort_index(ascending=False), {}


def _unrelated():
    features, tags = clean(1000)
    return features, tags.sample(frac=1, random_state=1).reset_index(drop=True), {}


def _zero_row():
    features, tags = clean()
    features = features.drop(columns="camera")
    features.iloc[3] = 0.0
    return features, tags, {}


def _nothing_missing_but(share):
    return lambda features, tags: features["red"].mask(np.arange(len(features)) < share * len(features))


CASES = {
    "tags-none": _tags(lambda tags: pd.Series([None] * len(tags), dtype=object)),
    "tags-one-label": _tags(lambda tags: _put(tags, slice(None), "beach")),
    "tags-look-like-ids": _tags(lambda tags: pd.Series([f"photo{i}" for i in range(len(tags))])),
    "tag-missing": _tags(lambda tags: _put(tags, slice(10), None)),
    "tag-says-missing": _tags(lambda tags: _put(tags, slice(10), "N/A")),
    "tag-holds-several": _tags(lambda tags: _put(tags, slice(10), "beach, Night")),
    "tag-row-several": _tags(_two_in_a_row),
    "tag-index-mismatch": _index,
    "id-repeated": lambda: (*clean(), {"ids": ["p1", *(f"p{i}" for i in range(399))]}),
    "tag-unpredictable": _unrelated,
    "label-never-observed": _tags(_unobserved),
    "label-rare": _tags(lambda tags: _put(tags, slice(3), "fog")),
    "label-dominant": _tags(lambda tags: _put(tags, slice(380), "city")),
    "label-spelling": _tags(lambda tags: _put(tags, slice(10), " Beach")),
    "labels-exclusive": lambda: (*exclusive(), {}),
    "column-empty": _with(note=np.nan),
    "column-constant": _with(unit="cm"),
    "column-mostly-missing": _with(part=_nothing_missing_but(0.6)),
    "column-duplicate": _with(copy=lambda features, tags: features["red"]),
    "column-pictures": _with(photo=lambda features, tags: [f"photos/{i}.JPG" for i in range(len(features))]),
    "column-id": _with(serial=lambda features, tags: [f"IMG{i * 7919 % 100_003}" for i in range(len(features))]),
    "column-number-as-text": _with(size=lambda features, tags: (features["red"] + 1).astype(str)),
    "column-unsupported": _with(box=lambda features, tags: [[i, 0] for i in range(len(features))]),
    "column-left-out": _with(shelf=lambda features, tags: [f"R{i * 7 % 131}-{i % 131}" for i in range(len(features))]),
    "column-leaks": _with(folder=lambda features, tags: tags.map({"beach": 3.5, "city": 1, "night": 2, "snow": 0})),
    "column-infinite": _with(ratio=lambda features, tags: features["blue"].where(features.index != 5, np.inf)),
    "row-empty": _zero_row,
    "row-duplicate": lambda: _stacked(8),
    "row-duplicate-disagrees": lambda: _stacked(4, lambda tags: tags.map(dict(zip(LABELS, LABELS[::-1], strict=True)))),
    "cardinality-bound": lambda: (*clean(), {}),
    "cardinality-estimate": lambda: _stacked(50),
    "cardinality-list": lambda: _stacked(90, lambda tags: tags.map(dict(zip(LABELS, LABELS[::-1], strict=True)))),
}

#: Findings that the illness of a case brings along.
BROUGHT_ALONG = {
    "tag-index-mismatch": {"tag-unpredictable"},
    "label-dominant": {"label-rare", "tag-unpredictable"},
    "row-duplicate-disagrees": {"row-duplicate"},
    "cardinality-estimate": {"row-duplicate"},
    "cardinality-list": {"row-duplicate", "row-duplicate-disagrees"},
}

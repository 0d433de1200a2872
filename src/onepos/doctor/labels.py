"""Checks of the tags and labels themselves; docs/doctor.md has the rules."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from onepos._utils.labels import normal_tag
from onepos.doctor.data import Tags
from onepos.doctor.diagnosis import Level, Seen, counted, seen
from onepos.table.files import MISSING
from onepos.table.kinds import as_words

RARE_ROWS, RARE_SHARE = 5, 1000  # A label in fewer rows, or in fewer than one in RARE_SHARE, is hardly ever observed
DOMINANT = 0.9  # A label in more than this share of the tagged rows dominates
ID_ROWS, ID_SHARE = 20, 0.9  # From so many rows on, labels as many as this share of the rows look like identifiers
MISSING_SHARE = 0.2  # Missing tags are a warning above this share, a note below

_MOST_IDS = 5  # Repeated ids that a finding names
_NO_TAG = {word.casefold() for word in MISSING if word} | {"-", "--"}  # What other columns mark a gap with
_SEPARATORS = re.compile(r"\s*[,;|/+&]\s*")


def check_labels(tags: Tags) -> Iterator[Seen]:
    """Look at how often each label is observed, how labels are written, and how many a row has."""
    n_rows, tagged = len(tags.per_row), int((tags.per_row > 0).sum())
    if not tagged:
        yield seen("tags-none")
        return
    yield from _check_counts(tags, tagged)
    yield from _check_spelling(tags)
    if tagged < n_rows:
        share, missing = 1 - tagged / n_rows, n_rows - tagged
        level: Level = "warning" if share > MISSING_SHARE else "note"
        yield seen("tag-missing", level=level, missing=missing, rows=counted(n_rows, "row"), share=share)
    several = int((tags.per_row > 1).sum())
    if several:
        yield seen("tag-row-several", rows=counted(several, "row"), most=tags.per_row.max())


def _check_counts(tags: Tags, tagged: int) -> Iterator[Seen]:
    observed = tags.counts > 0
    n_observed = int(observed.sum())
    labels = counted(n_observed, "label")
    if n_observed == 1:
        yield seen("tags-one-label", tags.names[observed])
    if tagged >= ID_ROWS and n_observed >= ID_SHARE * tagged:
        yield seen("tags-look-like-ids", labels=labels, rows=counted(tagged, "tagged row"))
        return
    if n_observed < len(observed):
        yield seen("label-never-observed", tags.names[~observed], labels=counted(len(observed), "label"))
    fewest = max(RARE_ROWS, tagged / RARE_SHARE)
    rare = tags.names[observed & (tags.counts < fewest)]
    if len(rare):
        yield seen("label-rare", rare, fewest=fewest, labels=labels)
    top = int(tags.counts.argmax())
    if n_observed > 1 and tags.counts[top] > DOMINANT * tagged:
        yield seen("label-dominant", [tags.names[top]], share=tags.counts[top] / tagged)


def _check_spelling(tags: Tags) -> Iterator[Seen]:
    written = [str(name) for name in tags.names]
    blank = np.array([not name.strip() for name in written])
    if tags.counts[blank].sum():
        yield seen("tag-blank", rows=counted(int(tags.counts[blank].sum()), "row"))
    alike: dict[str, list[str]] = defaultdict(list)
    for name in written:
        alike[_plain(name)].append(name)
    doubles = [group for key, group in alike.items() if key and len(group) > 1]
    if doubles:
        # Characters that do not show, or that training would change, are spelt out.
        visible = [[repr(one) if one == normal_tag(one) else ascii(one) for one in group[:3]] for group in doubles[:3]]
        shown = "; ".join(" = ".join(group) for group in visible)
        about = [name for group in doubles for name in group]
        yield seen("label-spelling", about, labels=counted(len(doubles), "label"), shown=shown)
    gaps = np.array([name.strip().casefold() in _NO_TAG for name in written]) & (tags.counts > 0)
    if gaps.any():
        yield seen("tag-says-missing", tags.names[gaps], rows=counted(int(tags.counts[gaps].sum()), "row"))
    parts = {name: [_plain(part) for part in _SEPARATORS.split(name)] for name in written}
    lists = [name for name, some in parts.items() if len(some) > 1 and all(part and part in alike for part in some)]
    if lists:
        yield seen("tag-holds-several", lists, tags=counted(len(lists), "tag"))


def _plain(name: str) -> str:
    """Return what near-duplicates share: no case, hyphens or runs of blanks, compatible characters as one."""
    text = unicodedata.normalize("NFKC", normal_tag(name)).casefold()
    return " ".join(text.replace("-", " ").replace("_", " ").split())


def check_index(features: Any, tags: Any) -> Iterator[Seen]:
    """Compare the row labels of two pandas objects: rows are matched by position, whatever the index says."""
    both = isinstance(features, pd.DataFrame | pd.Series) and isinstance(tags, pd.DataFrame | pd.Series)
    if both and not features.index.equals(tags.index):
        yield seen("tag-index-mismatch")


def check_ids(ids: Any) -> Iterator[Seen]:
    """Look for ids that several rows have: decisions of a reviewer are about one row."""
    if ids is None:
        return
    counts = pd.Series(as_words(pd.Series(ids))).value_counts()
    several = counts[counts > 1]
    if len(several):
        yield seen("id-repeated", several.index[:_MOST_IDS], ids=counted(len(several), "id"))


def check_split_labels(tags: Tags, test: Tags) -> Iterator[Seen]:
    """Look for labels that the test rows have and the training rows have not."""
    known = {_comparable(name) for name in tags.names[tags.counts > 0]}
    new = [name for name in test.names[test.counts > 0] if _comparable(name) not in known]
    if new:
        rows = int(test.counts[[name in new for name in test.names]].sum())
        yield seen("label-only-in-test", new, rows=counted(rows, "test row"), labels=counted(len(new), "label"))


def _comparable(name: Any) -> Any:
    """Return labels as they compare between two inputs: 1 and 1.0 are one label, 1 and "1" are not."""
    return float(name) if isinstance(name, int | float | np.number | np.bool_) else name

"""The tags: how they are read once, and the checks of tags and labels; docs/doctor.md has the rules."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils.labels import check_distinct, normal_tag
from onepos.doctor.diagnosis import Finding, Level, counted, finding
from onepos.table.files import MISSING
from onepos.table.kinds import as_words

RARE_ROWS, RARE_SHARE = 5, 1000  # A label in fewer rows, or in fewer than one in RARE_SHARE, is hardly ever observed
DOMINANT = 0.9  # A label in more than this share of the tagged rows dominates
ID_ROWS, ID_SHARE = 20, 0.9  # From so many rows on, labels as many as this share of the rows look like identifiers
MISSING_SHARE = 0.2  # Missing tags are a warning above this share, a note below

_MOST_IDS = 5  # Repeated ids that a finding names
_NO_TAG = {word.casefold() for word in MISSING} | {"", "-", "--"}  # What other columns mark a gap with
_SEPARATORS = re.compile(r"\s*[,;|/+&]\s*")


@dataclass(frozen=True, eq=False)
class Tags:
    """Observed labels, read once."""

    names: NDArray[Any]
    codes: NDArray[np.int64]  # The label of a row that has exactly one; −1 for other rows.
    per_row: NDArray[np.int64]  # Number of observed labels of each row.
    counts: NDArray[np.int64]  # Rows in which each label is observed.


def read_tags(tags: Any, n_rows: int) -> Tags:
    """Read one tag per row (missing allowed) or an indicator; ``ValueError`` says what does not fit."""
    if not hasattr(tags, "__iter__"):
        kind = type(tags).__name__
        raise ValueError(f"tags is {tags!r:.40}: pass one tag per row, or an indicator of 1, 0 and −1; got {kind}.")
    if sparse.issparse(tags):
        tags = tags.toarray()
    if not isinstance(tags, pd.Series | pd.DataFrame | np.ndarray):
        entries = list(tags)
        nested = any(isinstance(entry, list | tuple | np.ndarray) for entry in entries)
        tags = np.array(entries) if nested else pd.Series(entries, dtype=object)
    if tags.ndim not in (1, 2):
        raise ValueError(f"tags must be 1-D (one tag per row) or 2-D (an indicator); got shape {tags.shape}.")
    if len(tags) != n_rows:
        raise ValueError(f"features have {n_rows} rows, tags {len(tags)}: they must be of the same rows.")
    if tags.ndim == 2 and tags.shape[1] != 1:
        return _from_indicator(pd.DataFrame(tags))
    codes, names = factorize(pd.DataFrame(tags).iloc[:, 0])
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).astype(np.int64)
    return Tags(names, codes, (codes >= 0).astype(np.int64), counts)


def _from_indicator(frame: pd.DataFrame) -> Tags:
    check_distinct([str(name) for name in frame.columns], what="label")
    if frame.shape[1] == 0:
        raise ValueError("tags must have at least one label; got an indicator without columns.")
    rule = "an indicator holds 1, 0 and −1 only; write unknown as 0. The tags hold"
    try:
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{rule} something else: {error}.") from error
    bad = ~np.isin(values, (-1, 0, 1))
    if bad.any():
        raise ValueError(f"{rule} {values[bad][0]}.")
    observed = values == 1
    per_row = observed.sum(axis=1)
    codes = np.where(per_row == 1, observed.argmax(axis=1), -1)
    return Tags(frame.columns.to_numpy(dtype=object), codes, per_row, observed.sum(axis=0))


def factorize(series: "pd.Series[Any]") -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the code of each entry (−1: missing) and the distinct values in the order in which they occur."""
    try:
        codes, distinct = pd.factorize(series)
    except TypeError:  # lists, arrays, dicts: compared by what they look like
        texts = [None if pd.api.types.is_scalar(entry) and pd.isna(entry) else str(entry) for entry in series]
        codes, distinct = pd.factorize(pd.Series(texts, dtype=object))
    # A Series takes the entries as they are: np.asarray would turn 1 and "a" both into strings.
    return np.asarray(codes, dtype=np.int64), pd.Series(list(distinct), dtype=object).to_numpy()


def check_labels(tags: Tags) -> Iterator[Finding]:
    """Look at how often each label is observed, how labels are written, and how many a row has."""
    n_rows, tagged = len(tags.per_row), int((tags.per_row > 0).sum())
    if not tagged:
        yield finding("tags-none")
        return
    yield from _check_counts(tags, tagged)
    yield from _check_spelling(tags)
    if tagged < n_rows:
        share, missing = 1 - tagged / n_rows, n_rows - tagged
        level: Level = "warning" if share > MISSING_SHARE else "note"
        yield finding("tag-missing", level=level, missing=missing, rows=counted(n_rows, "row"), share=share)
    several = int((tags.per_row > 1).sum())
    if several:
        yield finding("tag-row-several", rows=counted(several, "row"), most=tags.per_row.max())


def look_like_ids(n_labels: int, n_tagged: int) -> bool:
    """Whether there are nearly as many labels as tagged rows."""
    return n_tagged >= ID_ROWS and n_labels >= ID_SHARE * n_tagged


def _check_counts(tags: Tags, tagged: int) -> Iterator[Finding]:
    observed = tags.counts > 0
    n_observed = int(observed.sum())
    labels = counted(n_observed, "label")
    if n_observed == 1:
        yield finding("tags-one-label", tags.names[observed])
    if look_like_ids(n_observed, tagged):
        yield finding("tags-look-like-ids", labels=labels, rows=counted(tagged, "tagged row"))
        return
    if n_observed < len(observed):
        yield finding("label-never-observed", tags.names[~observed], labels=counted(len(observed), "label"))
    fewest = max(RARE_ROWS, tagged / RARE_SHARE)
    rare = tags.names[observed & (tags.counts < fewest)]
    if len(rare):
        yield finding("label-rare", rare, fewest=fewest, labels=labels)
    top = int(tags.counts.argmax())
    if n_observed > 1 and tags.counts[top] > DOMINANT * tagged:
        yield finding("label-dominant", [tags.names[top]], share=tags.counts[top] / tagged)


def _check_spelling(tags: Tags) -> Iterator[Finding]:
    written = [str(name) for name in tags.names]
    alike: dict[str, list[str]] = defaultdict(list)
    for name in written:
        alike[_plain(name)].append(name)
    doubles = [group for key, group in alike.items() if key and len(group) > 1]
    if doubles:
        # Characters that do not show, or that training would change, are spelt out.
        visible = [[repr(one) if one == normal_tag(one) else ascii(one) for one in group[:3]] for group in doubles[:3]]
        shown = "; ".join(" = ".join(group) for group in visible)
        about = [name for group in doubles for name in group]
        yield finding("label-spelling", about, labels=counted(len(doubles), "label"), shown=shown)
    gaps = np.array([name.strip().casefold() in _NO_TAG for name in written]) & (tags.counts > 0)
    if gaps.any():
        yield finding("tag-says-missing", tags.names[gaps], rows=counted(int(tags.counts[gaps].sum()), "row"))
    parts = {name: [_plain(part) for part in _SEPARATORS.split(name)] for name in written}
    lists = [name for name, some in parts.items() if len(some) > 1 and all(part and part in alike for part in some)]
    if lists:
        yield finding("tag-holds-several", lists, tags=counted(len(lists), "tag"))


def _plain(name: str) -> str:
    """Return what near-duplicates share: no case, hyphens or runs of blanks, compatible characters as one."""
    text = unicodedata.normalize("NFKC", normal_tag(name)).casefold()
    return " ".join(text.replace("-", " ").replace("_", " ").split())


def check_index(features: Any, tags: Any) -> Iterator[Finding]:
    """Compare the row labels of two pandas objects: rows are matched by position, whatever the index says."""
    both = isinstance(features, pd.DataFrame | pd.Series) and isinstance(tags, pd.DataFrame | pd.Series)
    if both and not features.index.equals(tags.index):
        yield finding("tag-index-mismatch")


def check_ids(ids: Any) -> Iterator[Finding]:
    """Look for ids that several rows have: decisions of a reviewer are about one row."""
    if ids is None:
        return
    counts = pd.Series(as_words(pd.Series(ids))).value_counts()
    several = counts[counts > 1]
    if len(several):
        yield finding("id-repeated", several.index[:_MOST_IDS], ids=counted(len(several), "id"))

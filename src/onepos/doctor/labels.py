"""Checks of the tags and labels themselves."""

import re
import unicodedata
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd

from onepos._utils.labels import normal_tag
from onepos.doctor.data import Tags
from onepos.doctor.diagnosis import Finding, counted, finding, listed

#: A label observed in fewer rows than this, or in fewer than one in ``RARE_SHARE`` rows, is hardly ever observed.
RARE_ROWS, RARE_SHARE = 5, 1000
#: A label in more than this share of the tagged rows dominates.
DOMINANT = 0.9
#: From this many rows on, labels as many as this share of the tagged rows look like identifiers.
ID_ROWS, ID_SHARE = 20, 0.9
#: Missing tags are a warning above this share, a note below.
MISSING_SHARE = 0.2

_SEPARATORS = re.compile(r"\s*[,;|/+&]\s*")


def check_labels(tags: Tags) -> list[Finding]:
    """Look at how often each label is observed and how the labels are written.

    Errors: no tag at all; one label only; labels ≥ 90 % as many as tagged rows (from 20 rows on). Warnings: labels
    never observed, observed in fewer than 5 rows or fewer than one row in 1,000, in more than 90 % of the tagged
    rows; labels equal but for case, blanks, hyphens and how Unicode writes them; blank tags; tags made of other tags
    and a separator; more than 20 % of rows without a tag. Notes: fewer rows without a tag; rows with several observed
    labels.
    """
    tagged = int((tags.per_row > 0).sum())
    if not tagged:
        return [finding("tags-none", "error", "No row has an observed label. Check that this is the column of tags.")]
    return [*_numbers(tags, tagged), *_spelling(tags), *_rows(tags, tagged)]


def _numbers(tags: Tags, tagged: int) -> list[Finding]:
    found = []
    seen = tags.counts > 0
    if seen.sum() == 1:
        only = tags.names[seen]
        detail = f"Every tagged row has the label {listed(only)}. At least two labels are needed to learn anything."
        found.append(finding("tags-one-label", "error", detail, only))
    if tagged >= ID_ROWS and seen.sum() >= ID_SHARE * tagged:
        detail = (
            f"{counted(int(seen.sum()), 'label')} in {counted(tagged, 'tagged row')}: this looks like a column of "
            "names or identifiers. Pass the column of tags."
        )
        return [*found, finding("tags-look-like-ids", "error", detail)]
    never = tags.names[~seen]
    if len(never):
        detail = (
            f"Never observed: {len(never):,} of {counted(len(seen), 'label')} ({listed(never)}). Nothing can be "
            "learnt about them; drop them, or collect rows in which they are the tag."
        )
        found.append(finding("label-never-observed", "warning", detail, never))
    fewest = max(RARE_ROWS, tagged / RARE_SHARE)
    rare = tags.names[seen & (tags.counts < fewest)]
    if len(rare):
        detail = (
            f"Fewer than {fewest:,.0f} rows each: {len(rare):,} of {counted(int(seen.sum()), 'label')} "
            f"({listed(rare)}). They will be ranked low whatever the method; merge them with related labels or "
            "collect more."
        )
        found.append(finding("label-rare", "warning", detail, rare))
    top = int(tags.counts.argmax())
    if seen.sum() > 1 and tags.counts[top] > DOMINANT * tagged:
        detail = (
            f"{listed([tags.names[top]])} is the tag of {tags.counts[top] / tagged:.1%} of the tagged rows. Always "
            "predicting it is hard to beat; check how tags were chosen, and judge by ranking, not by accuracy."
        )
        found.append(finding("label-dominant", "warning", detail, [tags.names[top]]))
    return found


def _spelling(tags: Tags) -> list[Finding]:
    found = []
    written = [str(name) for name in tags.names]
    blank = sum(int(n) for name, n in zip(written, tags.counts, strict=True) if not name.strip())
    if blank:
        detail = f"The tag of {counted(blank, 'row')} is an empty string, which counts as a label. Mark it as missing."
        found.append(finding("tag-blank", "warning", detail))
    alike: dict[str, list[str]] = defaultdict(list)
    for name in written:
        alike[_plain(name)].append(name)
    doubles = [group for key, group in alike.items() if key and len(group) > 1]
    if doubles:
        shown = "; ".join(" = ".join(_visible(name) for name in group[:3]) for group in doubles[:3])
        detail = f"Written in several ways: {counted(len(doubles), 'label')} ({shown}). Merge them before training."
        found.append(finding("label-spelling", "warning", detail, [name for group in doubles for name in group]))
    lists = [name for name in written if _is_list(name, alike)]
    if lists:
        detail = (
            f"Several tags in one string, it seems: {counted(len(lists), 'tag')} ({listed(lists)}) of which each "
            "part is a tag elsewhere."
        )
        found.append(finding("tag-holds-several", "warning", detail, lists))
    return found


def _is_list(name: str, known: dict[str, Any]) -> bool:
    parts = [_plain(part) for part in _SEPARATORS.split(name)]
    return len(parts) > 1 and all(part and part in known for part in parts)


def _plain(name: str) -> str:
    """Return what near-duplicates share: no case, hyphens or runs of blanks, compatible characters as one."""
    text = unicodedata.normalize("NFKC", normal_tag(name)).casefold()
    return " ".join(text.replace("-", " ").replace("_", " ").split())


def _visible(name: str) -> str:
    """Return a name in quotes, in which characters that do not show or that training would change are spelt out."""
    return repr(name) if name == normal_tag(name) else ascii(name)


def _rows(tags: Tags, tagged: int) -> list[Finding]:
    found = []
    missing = len(tags.per_row) - tagged
    if missing:
        share = missing / len(tags.per_row)
        detail = (
            f"No tag in {missing:,} of {counted(len(tags.per_row), 'row')} ({share:.1%}). Their features are kept, "
            "but they do not count in the loss. Check that they are missing at random."
        )
        found.append(finding("tag-missing", "warning" if share > MISSING_SHARE else "note", detail))
    several = int((tags.per_row > 1).sum())
    if several:
        detail = (
            f"More than one observed label in {counted(several, 'row')}, {tags.per_row.max()} at most. The methods "
            "take them as they are, but their theory assumes one; checks that compare rows leave them out."
        )
        found.append(finding("tag-row-several", "note", detail))
    return found


def check_index(features: Any, tags: Any) -> list[Finding]:
    """Compare the row labels of two pandas objects: rows are matched by position, whatever the index says."""
    if not isinstance(features, pd.DataFrame | pd.Series) or not isinstance(tags, pd.DataFrame | pd.Series):
        return []
    if features.index.equals(tags.index):
        return []
    detail = (
        "The row labels (index) of features and tags differ, but rows are matched by position. If one of them was "
        "sorted or filtered, use tags.loc[features.index]; if not, reset both indices."
    )
    return [finding("tag-index-mismatch", "warning", detail)]


def check_split_labels(tags: Tags, test: Tags) -> list[Finding]:
    """Labels that the test rows have and the training rows have not."""
    known = {_comparable(name) for name in tags.names[tags.counts > 0]}
    new = [name for name in test.names[test.counts > 0] if _comparable(name) not in known]
    if not new:
        return []
    rows = int(np.sum(test.counts[[name in new for name in test.names]]))
    detail = (
        f"In {counted(rows, 'test row')} but never in training: {counted(len(new), 'label')} ({listed(new)}). No "
        "method can find them; split so that every label is in training."
    )
    return [finding("label-only-in-test", "warning", detail, new)]


def _comparable(name: Any) -> Any:
    """Return labels as they compare between two inputs: 1 and 1.0 are one label, 1 and "1" are not."""
    return float(name) if isinstance(name, int | float | np.number | np.bool_) else name

"""Every code that a finding may carry, with its title: the list that docs/doctor.md explains one by one."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from onepos.doctor.diagnosis import Finding, Level, name_of

#: What each finding is about, by its code; ``docs/doctor.md`` has what to do about it.
CODES: Mapping[str, str] = MappingProxyType(
    {
        "tags-none": "No row has a tag",
        "tags-one-label": "One label only",
        "tags-look-like-ids": "About as many labels as rows",
        "tag-missing": "Rows without a tag",
        "tag-blank": "Empty strings as tags",
        "tag-holds-several": "Tags that look like lists of tags",
        "tag-row-several": "Rows with more than one observed label",
        "tag-index-mismatch": "Tags and features have different row labels",
        "tag-unpredictable": "The features seem to say nothing about the tag",
        "label-never-observed": "Labels that are never observed",
        "label-rare": "Labels that are hardly ever observed",
        "label-dominant": "One label dominates",
        "label-spelling": "Labels that differ in case or blanks only",
        "label-only-in-test": "Labels that occur in the test rows only",
        "labels-exclusive": "The labels may exclude each other",
        "column-empty": "Columns without any value",
        "column-constant": "Columns with one value only",
        "column-mostly-missing": "Columns that are mostly missing",
        "column-duplicate": "Columns that repeat another one",
        "column-id": "Columns that look like identifiers",
        "column-text": "Free text among the categories",
        "column-number-as-text": "Numbers stored as text",
        "column-unsupported": "Columns of no usable type",
        "column-leaks": "Columns that give the tag away",
        "column-named-like-label": "Columns named like a label",
        "column-split-mismatch": "Training and test rows have different columns",
        "scale-infinite": "Infinite values",
        "scale-spread": "Columns of very different scale",
        "scale-huge": "Very large values",
        "scale-heavy-tail": "Heavy tails",
        "scale-integer-codes": "Integers that may be codes of categories",
        "row-empty": "Rows without content",
        "row-duplicate": "Identical rows",
        "row-duplicate-disagrees": "Identical rows with different tags",
        "row-in-both-splits": "Rows that are in training and in test",
        "text-empty": "Texts that are nearly empty",
        "text-duplicate": "Texts that occur more than once",
        "text-in-both-splits": "Texts that are in training and in test",
        "cardinality-estimate": "How many labels a row may have",
    }
)


def finding(code: str, level: Level, detail: str, about: Iterable[object] = ()) -> Finding:
    """Make a finding with the title of its code; names of columns and labels become plain strings.

    Examples
    --------
    >>> finding("tags-one-label", "error", "…", ["beach"]).title
    'One label only'
    """
    return Finding(level, code, CODES[code], detail, tuple(name_of(name) for name in about))


def listed(names: Iterable[object], most: int = 5) -> str:
    """Join names for a sentence, the first few of them.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = [name_of(name) for name in names]
    rest = len(shown) - most
    return ", ".join(shown) if rest <= 0 else f"{', '.join(shown[:most])} and {rest:,} more"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row"), counted(2, "category", "categories")
    ('1 row', '1,200 rows', '2 categories')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

"""Words of error messages: what was expected, what came, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def expected(what: str, value: Any, advice: str = "") -> str:
    """Return a message such as ``max_epochs must be at least 1; got 0. Leave it out for 100.``."""
    return f"{what}; got {value!r}.{advice and ' '}{advice}"


def one_of_names(what: str, value: Any, known: Iterable[str]) -> str:
    """Return a name that is known; else raise ValueError with those that are, and one that looks like it."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(expected(f"{what} must be one of {', '.join(names)}", value, similar(value, names)))


def similar(name: Any, known: Iterable[str]) -> str:
    """Return a question about the name that was perhaps meant; nothing if none is similar."""
    close = get_close_matches(str(name), list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else ""


def shorten(names: Iterable[Any], most: int = 8) -> str:
    """Return names for a message, only the first few if there are many."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (f" … ({len(shown):,} in all)" if len(shown) > most else "")

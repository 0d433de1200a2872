"""The results in sentences. They follow the numbers: whichever method wins is the one that is named."""

from collections.abc import Mapping
from typing import Any

_METRIC = "average_precision"


def verdict(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say who ranks best from single labels, how the methods compare, and how far full supervision is.

    Parameters
    ----------
    methods : mapping of key to a method of ``summarise``
        Sentences about a method that was not run are left out.
    """
    single = [method for method in methods.values() if not method["full_labels"]]
    sentences = []
    if single:
        best = max(single, key=_score)
        sentences.append(
            f"Of the methods that saw one label per picture, {best['name']} ranks best: average precision "
            f"{_score(best):.3f}."
        )
    if "smile" in methods and "an" in methods:
        sentences.append(_compare(methods["smile"], methods["an"]))
    if "frequency" in methods and "bce" in methods:
        sentences.extend(_distance(methods))
    return sentences


def _score(method: Mapping[str, Any]) -> float:
    return float(method["cells"][_METRIC]["mean"])


def _compare(smile: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    difference = _score(smile) - _score(other)
    spreads = [method["cells"][_METRIC]["spread"] for method in (smile, other)]
    place = "ahead of" if difference > 0 else "behind"
    sentence = f"{smile['name']} is {abs(difference):.3f} {place} {other['name']}"
    known = [spread for spread in spreads if spread is not None]
    if not known:
        return f"{sentence} in this one run, which says nothing about chance."
    if abs(difference) <= max(known):
        return f"{sentence}, no more than the runs differ among themselves (±{max(known):.3f})."
    return f"{sentence}, more than the runs differ among themselves (±{max(known):.3f})."


def _distance(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How much of the way from knowing nothing of the picture to knowing all labels each method goes."""
    floor, ceiling = _score(methods["frequency"]), _score(methods["bce"])
    if ceiling <= floor:
        return ["Full supervision is no better here than ranking by frequency: there was too little to learn from."]
    shares = [
        f"{method['name']} {100 * (_score(method) - floor) / (ceiling - floor):.0f} %"
        for key, method in methods.items()
        if key not in ("frequency", "bce")
    ]
    if not shares:
        return []
    return [
        f"On the way from ranking by frequency alone ({floor:.3f}) to training on every label ({ceiling:.3f}), one "
        f"label per picture gets this far: {', '.join(shares)}."
    ]

"""Everything that the page shows, as plain values."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onepos.review.contents import (
    check_length,
    check_names,
    feature_table,
    image_addresses,
    number_given,
    plain_texts,
)
from onepos.review.suggestions import (
    check_probabilities,
    check_thresholds,
    most_uncertain,
    scale_thresholds,
    suggest,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


def make_payload(
    *,
    ids: Sequence[str],
    observed: Sequence[str | None],
    labels: Sequence[str],
    probabilities: "ArrayLike",
    texts: Sequence[str] | None = None,
    images: Sequence[str] | None = None,
    features: "pd.DataFrame | None" = None,
    threshold: float | Sequence[float] = 0.5,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return the page's data; the parameters are those of ``write_review``.

    Returns
    -------
    dict
        ``ids``, ``labels``; ``given``: number of the observed label or -1; ``thresholds``: thousandths by label;
        ``suggestions``: see ``suggest``; and ``texts``, ``images``, ``features`` where they were given.
    """
    ids, labels = check_names(ids, "ids"), check_names(labels, "labels")
    if not ids:
        raise ValueError("ids must name at least one example; got none: there is nothing to review")
    for name, values in (("observed", observed), ("texts", texts), ("images", images), ("features", features)):
        if values is not None:
            check_length(values, len(ids), name)
    scores = check_probabilities(probabilities, len(ids), len(labels))
    thresholds = check_thresholds(threshold, len(labels))
    given = np.array(number_given(observed, labels), dtype=np.int64)
    rows = most_uncertain(scores, thresholds, given, limit)

    payload: dict[str, Any] = {
        "ids": _take(ids, rows),
        "labels": labels,
        "thresholds": scale_thresholds(thresholds).tolist(),
        "given": given[rows].tolist(),
        "suggestions": suggest(scores[rows], thresholds, given[rows]),
    }
    if texts is not None:
        payload["texts"] = plain_texts(_take(texts, rows))
    if images is not None:
        payload["images"] = image_addresses(_take(images, rows))
    if features is not None:
        payload["features"] = feature_table(features.iloc[rows])
    return payload


def _take(values: Sequence[Any], rows: "np.ndarray[Any, np.dtype[np.int64]]") -> list[Any]:
    everything = list(values)  # a pandas column is indexed by its own labels, a list is not
    return [everything[row] for row in rows]

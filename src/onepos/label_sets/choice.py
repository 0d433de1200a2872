"""Whether people choose evenly which true label of a row they tag: tags against a sample with complete labels."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

Numbers = NDArray[np.float64]

#: Resamples of the sample's rows.
_RESAMPLES = 2000
#: Labels that fewer of the sample's tags would be expected to have are joined in the test.
_LEAST_EXPECTED = 1.0


def even_shares(Y: Any) -> Numbers:
    """Return the share of tags that each label would have if one label per row were drawn evenly.

    Examples
    --------
    >>> even_shares([[1, 1, 0], [1, 0, 0], [0, 0, 0]]).tolist()
    [0.75, 0.25, 0.0]
    """
    return np.asarray(_choices(Y).mean(axis=0))


def _choices(Y: Any) -> Numbers:
    """Return the chance of each label to be drawn, of rows that have one."""
    present = (np.asarray(Y) > 0).astype(np.float64)
    present = present[present.any(axis=1)]
    if not len(present):
        raise ValueError("no row of the sample has a label. Give rows of which some have labels.")
    return np.asarray(present / present.sum(axis=1, keepdims=True))


def even_choice_p_value(counts: ArrayLike, Y: Any, *, random_state: int = 0) -> float:
    """Return the p-value of the test that tags were drawn evenly from the labels of rows like the sample's.

    The statistic is Σ_j (s_j − f_j)²/f_j with s = ``even_shares(Y)``, f the shares of the tags. How large it is by
    chance is told by resamples of the sample's rows and of the tags, both about their means.
    A small value says: tags are chosen, or the sample's rows are of another kind than the tagged ones.

    Parameters
    ----------
    counts : array of shape (n_labels,)
        How often each label is the tag of a row.
    Y : array of shape (n_samples, n_labels)
        Complete labels: above 0 present, otherwise absent.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.random((100, 4)) < [0.8, 0.6, 0.4, 0.2]
    >>> bool(even_choice_p_value([400, 300, 200, 100], Y) > 0.05), even_choice_p_value([250, 250, 250, 250], Y) < 0.01
    (True, True)
    """
    tagged = np.asarray(counts, dtype=np.float64)
    choices, generator = _choices(Y), np.random.default_rng(random_state)
    if tagged.shape != (choices.shape[1],) or not tagged.sum() > 0:
        raise ValueError(f"counts must have one number of tags per label, {choices.shape[1]}, and not only zeros.")
    n_rows, total = len(choices), round(tagged.sum())
    rare = n_rows * (tagged + 0.5) / (total + 0.5 * len(tagged)) < _LEAST_EXPECTED
    if rare.sum() > 1:  # labels of which the sample hardly has a row count as one
        tagged = np.append(tagged[~rare], tagged[rare].sum())
        choices = np.column_stack([choices[:, ~rare], choices[:, rare].sum(axis=1)])
    smooth = (tagged + 0.5) / (total + 0.5 * len(tagged))
    gap = choices.mean(axis=0) - tagged / total
    # Means of resampled rows, and of resampled tags, less the means of the originals. Means of n resampled rows vary
    # less than those of n new rows, by (n − 1)/n.
    drawn = generator.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), _RESAMPLES) / n_rows
    chance = (drawn @ choices - choices.mean(axis=0)) * np.sqrt(n_rows / max(n_rows - 1, 1))
    chance -= generator.multinomial(total, tagged / tagged.sum(), _RESAMPLES) / total - tagged / total
    by_chance = (chance**2 / smooth).sum(axis=1)
    return float((1 + (by_chance >= (gap**2 / smooth).sum()).sum()) / (1 + _RESAMPLES))


def rate_intervals(Y: Any, confidence: float = 0.95) -> Numbers:
    """Return low and high end of the share of rows that have each label, shape (n_labels, 2): Wilson's interval.

    Examples
    --------
    >>> rate_intervals([[1], [1], [0], [0]]).round(2).tolist()
    [[0.15, 0.85]]
    """
    present = np.asarray(Y) > 0
    made = [binomtest(int(n), len(present)).proportion_ci(confidence, "wilson") for n in present.sum(axis=0)]
    return np.array([[one.low, one.high] for one in made])

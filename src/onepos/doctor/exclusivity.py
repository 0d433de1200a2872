"""Whether this looks like multi-label data, and whether the features say anything about the tag."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from onepos.doctor._guess import Guess
from onepos.doctor.codes import finding
from onepos.doctor.diagnosis import Finding

#: Share of rows with one label only from which on labels are suspected to exclude each other.
SUSPICIOUS = 0.8
#: Share of the most frequent label's errors that guesses must avoid: one frequent label alone is no class structure.
SKILL = 0.5
#: Fewest rows from which to say that features tell nothing, and the standard errors that would be something.
FEWEST_ROWS, STANDARD_ERRORS = 200, 2.0
#: One-sided confidence of the lower bound.
CONFIDENCE = 0.975


def single_share(right: NDArray[np.bool_], confidence: NDArray[np.float64]) -> float:
    """Lower bound on the share of rows that have one label only.

    Let the tag be drawn uniformly from the row's labels Y. Then P(tag = j | x) = E[1{j ∈ Y}/|Y| | x] ≤ E[1/|Y| | x]
    ≤ ½ + ½ P(|Y| = 1 | x). So where guesses are right with probability a, at least 2a − 1 of the rows have one label.
    Take the rows S whose guess is held likelier than not, a choice that does not look at their tags: at least
    P(S) · (2 a_S − 1) of all rows have one label. a_S is replaced by its Wilson lower bound (97.5 %).

    Overlapping exclusive classes give a small value, so a small value proves nothing. A tag chosen by a rule that the
    features reveal (always the first one, always the largest object) gives a large value whatever |Y| is.

    Parameters
    ----------
    right : bool array of shape (n_rows,)
        Whether the guess, which must not have seen the row's tag, is the tag.
    confidence : array of shape (n_rows,)
        Probability that the guess was given.

    Returns
    -------
    float

    Examples
    --------
    >>> round(single_share(np.ones(1000, dtype=bool), np.full(1000, 0.9)), 3)
    0.992
    >>> single_share(np.arange(1000) % 2 == 0, np.full(1000, 0.9))
    0.0
    """
    sure = confidence > 0.5
    n = int(sure.sum())
    if n == 0:
        return 0.0
    return float(sure.mean() * max(0.0, 2 * _wilson_lower(float(right[sure].mean()), n) - 1))


def _wilson_lower(share: float, n: int) -> float:
    z = NormalDist().inv_cdf(CONFIDENCE)
    centre = share + z**2 / (2 * n)
    return float((centre - z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))) / (1 + z**2 / n))


def check_exclusivity(guess: Guess | None, *, disagree: bool) -> list[Finding]:
    """Suspect labels that exclude each other, and features that say nothing.

    Warning: at least 80 % of the rows seem to have one label only (:func:`single_share`), guesses avoid half of the
    errors of the most frequent label, and identical rows do not contradict (``disagree``). Warning: on 200 rows or
    more, the probability that the guess gives to a row's own tag is not two standard errors above what it gives to
    the tag of a random row.
    """
    if guess is None:
        return []
    found = []
    share = single_share(guess.right, guess.confidence)
    skill = (guess.right.mean() - guess.frequent) / max(1 - guess.frequent, 1e-12)
    if share >= SUSPICIOUS and skill >= SKILL and not disagree:
        detail = (
            f"Held-out tags are guessed right in {guess.right.mean():.0%} of the rows; the nearest row has the same "
            f"tag in {guess.nearest.mean():.0%}. If tags were drawn evenly from each row's labels, at least "
            f"{share:.0%} of the rows have one label only. This is a suspicion: a tag that is always the most "
            "prominent label looks the same."
        )
        found.append(finding("labels-exclusive", "warning", detail))
    error = float(guess.edge.std() / np.sqrt(len(guess.edge)))
    if len(guess.edge) >= FEWEST_ROWS and guess.edge.mean() < STANDARD_ERRORS * error:
        detail = (
            f"Neighbours and a linear model guess {guess.right.mean():.1%} of held-out tags, no better for a row's "
            "own tag than for a random one. Check that rows of features and tags belong together; else expect no "
            "more than the ranking by frequency."
        )
        found.append(finding("tag-unpredictable", "warning", detail))
    return found

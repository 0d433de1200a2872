"""How many labels a row has, as far as pairs of rows reveal it, and whether labels exclude each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from onepos.doctor.data import Table, Tags, read_table, read_tags
from onepos.doctor.diagnosis import Seen, seen
from onepos.doctor.guess import Guess, find_leaks, guess_tags
from onepos.doctor.rows import chance_duplicates, comparable_rows, groups_of

FEWEST_GROUPS, MOST_GROUPS = 20, 5000  # Fewest groups of identical rows to rely on; most to resample
FEWEST_ENTRIES = 3  # A sparse row with fewer entries coincides with others by chance
_RESAMPLES = 400
SUSPICIOUS = 0.8  # Share of rows with one label only from which on labels are suspected to exclude each other
#: Share of the most frequent label's errors that guesses must avoid: one frequent label alone is no class structure.
SKILL = 0.5
FEWEST_ROWS, STANDARD_ERRORS = 200, 2.0  # From so many rows on, an edge of fewer standard errors counts as nothing
AGREE = 0.9  # Identical rows that agree in fewer pairs contradict the suspicion that labels are exclusive
CONFIDENCE = 0.975  # One-sided confidence of the lower bound


@dataclass(frozen=True)
class CardinalityEstimate:
    """What is known of the number of labels per row, |Y|.

    ``estimate`` is 1 / P(two tags agree), between 1 and the number of labels; None if there is no evidence.
    ``interval`` is its 95 % interval (Bayesian bootstrap): sampling error only, not the assumptions'. With ``basis``
    "duplicates" this estimates the harmonic mean of |Y|, 1/E[1/|Y|]; with "neighbours" it is an upper bound. ``pairs``
    counts the groups of identical rows, or the rows whose tag was guessed.
    """

    estimate: float | None
    interval: tuple[float, float] | None
    basis: Literal["duplicates", "neighbours", "none"]
    pairs: int


def estimate_cardinality(features: Any, tags: Any, *, text: Any = None) -> CardinalityEstimate:
    """Estimate, or bound, the number of labels per row from pairs of rows.

    Single positives do not identify the mean number of labels m = E|Y|. Pairs of tags of the same row do say something.
    If tags are chosen evenly, two tags of one thing agree with probability 1/|Y|, and any guess that has not seen the
    tag is right with probability at most E[1/|Y|]. With 20 groups of identical rows or more, which coarse columns do
    not explain, the first gives an estimate of the harmonic mean of |Y|, which is at most m. Else, with 50 rows or
    more, the second gives an upper bound of it, from the best of three guesses. docs/doctor.md says when each is wrong.

    Parameters are those of :func:`onepos.doctor.diagnose`. Rows with other than one observed label are left out.

    Examples
    --------
    Fifty things, each tagged twice, and in half of the cases differently:

    >>> things = np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 2, axis=0)
    >>> tags = ["sea", "sea", "sea", "sky"] * 25
    >>> cardinality = estimate_cardinality(things, tags)
    >>> cardinality.estimate, cardinality.basis, cardinality.pairs
    (2.0, 'duplicates', 50)
    """
    table = read_table(features, text)
    read = read_tags(tags, table.n_rows)
    from_duplicates = cardinality_of(table, read, None)
    if from_duplicates.basis == "duplicates":
        return from_duplicates
    return cardinality_of(table, read, guess_tags(table, read, find_leaks(table, read)))


def cardinality_of(table: Table, tags: Tags, guess: Guess | None) -> CardinalityEstimate:
    """Return the estimate of :func:`estimate_cardinality` from what has been read and guessed."""
    n_labels = int((tags.counts > 0).sum())
    outcomes, weight = _agreements(table, tags)
    basis: Literal["duplicates", "neighbours"] = "duplicates"
    if len(outcomes) < FEWEST_GROUPS and guess is not None:
        basis, outcomes = "neighbours", np.stack([guess.nearest, guess.vote, guess.right], axis=1).astype(np.float64)
        weight = np.ones(len(outcomes))
    elif n_labels < 2 or len(outcomes) < FEWEST_GROUPS:
        return CardinalityEstimate(None, None, "none", 0)
    agreement = float(np.average(outcomes, axis=0, weights=weight).max())
    low, high = np.quantile(_resampled(outcomes, weight).max(axis=1), [0.025, 0.975])
    estimate, least, most = (float(np.clip(1 / max(p, 1e-12), 1, n_labels)) for p in (agreement, high, low))
    return CardinalityEstimate(estimate, (min(least, estimate), max(most, estimate)), basis, len(outcomes))


def _agreements(table: Table, tags: Tags) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per group of identical tagged rows, none by chance: share of pairs with the same tag (a column), and rows."""
    used = comparable_rows(table, tags)
    if table.matrix is not None:
        used &= np.diff(table.matrix.indptr) >= FEWEST_ENTRIES
    group, size = groups_of(table, used)
    if not (size > 1).any() or chance_duplicates(table, size):
        return np.zeros((0, 1)), np.zeros(0)
    pair, count = np.unique(np.stack([group, tags.codes[used]]), axis=1, return_counts=True)
    same = np.bincount(pair[0], count * (count - 1.0), minlength=len(size))
    several = size > 1
    rows = size[several].astype(np.float64)
    return (same[several] / (rows * (rows - 1)))[:, None], rows


def _resampled(outcomes: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means under random Dirichlet weights, shape (resamples, n_outcomes).

    Two half observations, one of agreement and one of disagreement, are added: for outcomes 0 and 1 this is the
    Beta(½, ½) prior, and the interval does not shrink to a point when all agree.
    """
    rng = np.random.default_rng(0)
    if len(outcomes) > MOST_GROUPS:
        kept = rng.permutation(len(outcomes))[:MOST_GROUPS]
        outcomes, weight = outcomes[kept], weight[kept]
    ends = np.array([[0.0], [1.0]]) * np.ones(outcomes.shape[1])
    shape = np.append(np.ones(len(outcomes)), [0.5, 0.5])
    draws = rng.standard_gamma(shape, size=(_RESAMPLES, len(shape))) * np.append(weight, [weight.mean()] * 2)
    return np.asarray(draws @ np.concatenate([outcomes, ends]) / draws.sum(axis=1, keepdims=True))


_MEANING = {
    "duplicates": """\
From {pairs:,} groups of identical rows: about {numbers} labels per row, as a harmonic mean, if each group is one \
thing tagged several times, evenly among its labels. The mean is at least as large. Copied records, whose tag was \
copied along, make it too small.""",
    "neighbours": """\
Tags guessed from other rows: at most {numbers} labels per row, as a harmonic mean, if tags were drawn evenly from \
each row's labels. This is an upper bound, loose if features say little; single positives do not reveal the mean.""",
}


def check_cardinality(cardinality: CardinalityEstimate, guess: Guess | None) -> Iterator[Seen]:
    """Say what the estimate means, and what guesses of tags tell about the labels."""
    if guess is not None:
        yield from _check_guesses(guess, cardinality)
    if cardinality.estimate is not None and cardinality.interval is not None:
        low, high = cardinality.interval
        numbers = f"{cardinality.estimate:.2f} (95 % interval {low:.2f} to {high:.2f})"
        meaning = _MEANING[cardinality.basis].format(pairs=cardinality.pairs, numbers=numbers)
        yield seen("cardinality-estimate", found=meaning)


def single_share(right: NDArray[np.bool_], confidence: NDArray[np.float64]) -> float:
    """Lower bound on the share of rows that have one label only.

    Let the tag be drawn uniformly from the row's labels Y. Then P(tag = j | x) = E[1{j ∈ Y}/|Y| | x] ≤ E[1/|Y| | x]
    ≤ ½ + ½ P(|Y| = 1 | x). So where guesses are right with probability a, at least 2a − 1 of the rows have one label.
    Take the rows S whose guess is held likelier than not, a choice that does not look at their tags: at least
    P(S) · (2 a_S − 1) of all rows have one label. a_S is replaced by its Wilson lower bound (97.5 %).

    ``right`` says whether a guess that has not seen the row's tag is the tag, ``confidence`` how probable it was held.
    Overlapping exclusive classes give a small value, so a small value proves nothing.
    """
    sure = confidence > 0.5
    n = int(sure.sum())
    if n == 0:
        return 0.0
    lower = binomtest(int(right[sure].sum()), n).proportion_ci(2 * CONFIDENCE - 1, method="wilson").low
    return float(sure.mean() * max(0.0, 2 * lower - 1))


def _check_guesses(guess: Guess, cardinality: CardinalityEstimate) -> Iterator[Seen]:
    """Suspect labels that exclude each other, unless identical rows disagree; and features that say nothing."""
    disagree = cardinality.basis == "duplicates" and 1 / (cardinality.estimate or 1.0) < AGREE
    right = float(guess.right.mean())
    share = single_share(guess.right, guess.confidence)
    skill = (right - guess.frequent) / max(1 - guess.frequent, 1e-12)
    if share >= SUSPICIOUS and skill >= SKILL and not disagree:
        yield seen("labels-exclusive", right=right, nearest=guess.nearest.mean(), share=share)
    error = float(guess.edge.std() / np.sqrt(len(guess.edge)))
    if len(guess.edge) >= FEWEST_ROWS and guess.edge.mean() < STANDARD_ERRORS * error:
        yield seen("tag-unpredictable", right=right)

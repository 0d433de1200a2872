"""How many labels a row has, as far as pairs of rows reveal it, and whether labels exclude each other."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from onepos._utils.context import other_warnings
from onepos.doctor.columns import (
    Column,
    chance_duplicates,
    comparable_rows,
    find_leaks,
    groups_of,
    is_id,
    read_columns,
)
from onepos.doctor.diagnosis import Finding, finding
from onepos.doctor.labels import Tags, read_tags
from onepos.exceptions import DataFileError
from onepos.table import ColumnEncoder
from onepos.table.kinds import NUMBER

FEWEST_GROUPS, MOST_GROUPS = 20, 5000  # Fewest groups of identical rows to rely on; most to resample
_RESAMPLES = 400
CUT = 5.0  # Standardised values beyond this are cut: one outlier must not decide a distance
REFERENCE, QUERIES, VOTERS, MODEL_ROWS = 10_000, 2_000, 15, 3_000  # Rows to learn from, to guess, to vote, to fit
FEWEST_ROWS = 50  # Fewest rows from which to guess tags
#: The reference holds at most so many numbers; the multinomial model is fitted up to so many products per step.
MOST_ENTRIES, MOST_PRODUCTS = 40_000_000, 20_000_000
SUSPICIOUS = 0.8  # Share of rows with one label only from which on labels are suspected to exclude each other
#: Share of the most frequent label's errors that guesses must avoid: one frequent label alone is no class structure.
SKILL = 0.5
MOST_SEVERAL = 0.1  # Share of the tagged rows that may show several tags before guesses of single tags say nothing
AGREE = 0.9  # Identical rows that agree in fewer pairs contradict the suspicion that labels are exclusive
CONFIDENCE = 0.975  # One-sided confidence of the lower bound
EDGE_ROWS, STANDARD_ERRORS = 200, 2.0  # From so many rows on, an edge of fewer standard errors counts as nothing


@dataclass(frozen=True)
class CardinalityEstimate:
    """What is known of the number of labels per row, |Y|.

    ``estimate`` is 1 / P(two tags agree), between 1 and the number of labels; None if there is no evidence.
    ``interval`` is its 95 % interval (Bayesian bootstrap): sampling error only, not the assumptions'. With ``basis``
    "duplicates" this estimates the harmonic mean of |Y|, 1/E[1/|Y|]; with "neighbours" it is an upper bound. With
    "list" identical rows list the tags of one thing, each once: they show ``shown`` in the mean, and tell no more.
    ``pairs`` counts the groups of identical rows, or the rows whose tag was guessed.
    """

    estimate: float | None
    interval: tuple[float, float] | None
    basis: Literal["duplicates", "neighbours", "list", "none"]
    pairs: int
    shown: float | None = None


def estimate_cardinality(features: Any, tags: Any, *, text: Any = None) -> CardinalityEstimate:
    """Estimate, or bound, the number of labels per row from pairs of rows.

    Single positives do not identify the mean number of labels, but pairs of tags of the same row say something about
    it. docs/doctor.md says how, and when the estimate is wrong. Parameters are those of :func:`onepos.doctor.diagnose`.
    Rows with other than one observed label are left out.

    Examples
    --------
    Fifty things, each tagged twice, and in half of the cases differently:

    >>> things = np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 2, axis=0)
    >>> tags = ["sea", "sea", "sea", "sky"] * 25
    >>> cardinality = estimate_cardinality(things, tags)
    >>> cardinality.estimate, cardinality.basis, cardinality.pairs
    (2.0, 'duplicates', 50)
    """
    columns = read_columns(features, text)
    read = read_tags(tags, len(columns[0].codes))
    from_duplicates = cardinality_of(columns, read, None)
    if from_duplicates.basis == "duplicates":
        return from_duplicates
    return cardinality_of(columns, read, guess_tags(columns, read, find_leaks(columns, read)))


@dataclass(frozen=True, eq=False)
class TagGuess:
    """Guesses of tags, none of which has seen the row's own tag; arrays of shape (n_queries,)."""

    nearest: NDArray[np.bool_]  # Whether the nearest other row has the same tag.
    vote: NDArray[np.bool_]  # Whether the vote of 15 neighbours is the tag.
    right: NDArray[np.bool_]  # Whether the mean of the vote and a cross-validated multinomial model has the tag on top.
    confidence: NDArray[np.float64]  # That mean for its top label.
    frequent: float  # Share of the queries that the most frequent label gets right.
    edge: NDArray[np.float64]  # That mean for the row's own tag, less what a random row's tag would get.


def guess_tags(columns: Sequence[Column], tags: Tags, leaks: Collection[str]) -> TagGuess | None:
    """Guess tags of up to 2,000 rows; None if rows or labels are too few.

    Rows without content are left out. Of identical rows one is kept, unless they coincide by chance: the copy of a
    record carries its tag, which says nothing about the row's other labels. Columns that leak or identify are left
    out too.
    """
    rows = np.random.default_rng(0).permutation(np.flatnonzero(comparable_rows(columns, tags)))
    group, size = groups_of(columns, rows)
    if len(rows) and not chance_duplicates(columns, size):
        rows = rows[np.sort(np.unique(group, return_index=True)[1])]
    rows = rows[: max(FEWEST_ROWS, min(REFERENCE, MOST_ENTRIES // len(columns)))]
    labels, codes = np.unique(tags.codes[rows], return_inverse=True)
    n_labels = len(labels)
    if len(rows) < FEWEST_ROWS or not 2 <= n_labels <= len(rows) / 2:
        return None
    usable = [one for one in columns if one.is_used and one.name not in leaks and not is_id(one)]
    X = _vectors(usable, rows)
    if X is None:
        return None
    n = min(QUERIES, len(rows))
    truth, everyone = codes[:n], np.arange(n)
    neighbours = _neighbours(X, n)
    votes = np.zeros((n, n_labels))
    np.add.at(votes, (everyone[:, None], codes[neighbours]), 1.0 / VOTERS)
    share = votes if (model := _multinomial(X, codes, n, n_labels)) is None else (votes + model) / 2
    frequency = np.bincount(codes, minlength=n_labels) / len(codes)
    return TagGuess(
        nearest=codes[neighbours[:, 0]] == truth,
        vote=votes.argmax(axis=1) == truth,
        right=share.argmax(axis=1) == truth,
        confidence=share.max(axis=1),
        frequent=float((truth == frequency.argmax()).mean()),
        edge=share[everyone, truth] - share @ frequency,
    )


def _vectors(columns: Sequence[Column], rows: NDArray[np.int64]) -> Any:
    """Return rows as float32 vectors, dense or CSR, in the features of ``fit``; None if no column can be used."""
    frame = pd.DataFrame({column.name: column.cells.iloc[rows] for column in columns})
    for column in columns:
        if column.kind == NUMBER and column.values is not None:
            frame[column.name] = np.where(np.isfinite(column.values[rows]), column.values[rows], np.nan)
    texts = [column.name for column in columns if column.is_text]
    for text, drop in ((texts, []), ([], texts)):  # once more without texts, if they hold no usable words
        try:
            with np.errstate(all="ignore"):
                X = ColumnEncoder(text=text, drop=drop).fit(frame).transform(frame)
        except DataFileError:
            continue
        values = X.data if sparse.issparse(X) else X
        np.clip(np.nan_to_num(values, copy=False), -CUT, CUT, out=values)
        return X
    return None


def _neighbours(X: Any, n: int) -> NDArray[np.int64]:
    """Return the 15 nearest other rows of each of the first n rows."""
    search = NearestNeighbors(n_neighbors=VOTERS + 1, algorithm="brute").fit(X)
    near = search.kneighbors(X[:n], return_distance=False)
    # Among rows at distance zero, the row itself may come later or be missing.
    other = near != np.arange(n)[:, None]
    other[other.all(axis=1), -1] = False
    return np.asarray(near[other].reshape(n, VOTERS), dtype=np.int64)


def _multinomial(X: Any, codes: NDArray[np.int64], n: int, n_labels: int) -> NDArray[np.float64] | None:
    """Probabilities of the first n rows from three-fold cross-validation; None if that would take long."""
    m = min(MODEL_ROWS, len(codes))
    entries = X[:m].nnz if sparse.issparse(X) else m * X.shape[1]
    if (entries + X.shape[1]) * n_labels > MOST_PRODUCTS:
        return None
    probabilities = np.zeros((n, n_labels))
    model, folds = LogisticRegression(C=0.1, max_iter=50), PredefinedSplit(np.arange(m) % 3)
    try:
        with other_warnings("ignore"):  # a rough fit is a fair guess too, and a fold may lack a rare label
            shares = cross_val_predict(model, X[:m], codes[:m], cv=folds, method="predict_proba")
    except ValueError:  # a fold has one label only
        return None
    probabilities[:m, np.unique(codes[:m])] = shares[:n]
    return probabilities


def cardinality_of(columns: Sequence[Column], tags: Tags, guess: TagGuess | None) -> CardinalityEstimate:
    """Return the estimate of :func:`estimate_cardinality` from what has been read and guessed."""
    n_labels = int((tags.counts > 0).sum())
    nothing = CardinalityEstimate(None, None, "none", 0)
    outcomes, weight, shown = _agreements(columns, tags)
    if len(outcomes) >= FEWEST_GROUPS and n_labels > 1:
        found = _estimate(outcomes, weight, n_labels, "duplicates")
        assert found.interval is not None
        # Tags drawn from all labels would agree more often: a thing's tags do not repeat.
        if found.interval[0] >= n_labels:
            return CardinalityEstimate(None, None, "list", len(outcomes), float(shown.mean()))
        least = 1.0 / np.average(1.0 / shown, weights=weight)  # no fewer than the groups show
        if found.estimate is not None and outcomes.any():
            interval = (max(found.interval[0], least), max(found.interval[1], least))
            return replace(found, estimate=float(max(found.estimate, least)), interval=interval)
    # Of rows that show several tags, those with one are a choice of the smaller sets.
    several = (tags.per_row > 1).sum() > MOST_SEVERAL * (tags.per_row > 0).sum()
    if guess is None or several or n_labels < 2:
        return nothing
    outcomes = np.stack([guess.nearest, guess.vote, guess.right], axis=1).astype(np.float64)
    return _estimate(outcomes, np.ones(len(outcomes)), n_labels, "neighbours")


def _estimate(
    outcomes: NDArray[np.float64],
    weight: NDArray[np.float64],
    n_labels: int,
    basis: Literal["duplicates", "neighbours"],
) -> CardinalityEstimate:
    agreement = float(np.average(outcomes, axis=0, weights=weight).max())
    low, high = np.quantile(_resampled(outcomes, weight).max(axis=1), [0.025, 0.975])
    estimate, least, most = (float(np.clip(1 / max(p, 1e-12), 1, n_labels)) for p in (agreement, high, low))
    return CardinalityEstimate(estimate, (min(least, estimate), max(most, estimate)), basis, len(outcomes))


def _agreements(
    columns: Sequence[Column], tags: Tags
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Per group of identical tagged rows, none by chance: share of pairs that agree (a column), rows, distinct tags."""
    used = comparable_rows(columns, tags)
    group, size = groups_of(columns, used)
    several = size > 1
    if not several.any() or chance_duplicates(columns, size):
        return np.zeros((0, 1)), np.zeros(0), np.zeros(0)
    pair, count = np.unique(np.stack([group, tags.codes[used]]), axis=1, return_counts=True)
    same = np.bincount(pair[0], count * (count - 1.0), minlength=len(size))
    rows = size[several].astype(np.float64)
    shown = np.bincount(pair[0], minlength=len(size))[several].astype(np.float64)
    return (same[several] / (rows * (rows - 1)))[:, None], rows, shown


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


def single_share(right: NDArray[np.bool_], confidence: NDArray[np.float64]) -> float:
    """Lower bound on the share of rows that have one label only; docs/doctor.md derives it.

    ``right`` says whether a guess that has not seen the row's tag is the tag, ``confidence`` how probable it was held.
    """
    sure = confidence > 0.5
    n = int(sure.sum())
    if n == 0:
        return 0.0
    lower = binomtest(int(right[sure].sum()), n).proportion_ci(2 * CONFIDENCE - 1, method="wilson").low
    return float(sure.mean() * max(0.0, 2 * lower - 1))


def check_guesses(guess: TagGuess | None, cardinality: CardinalityEstimate) -> Iterator[Finding]:
    """Suspect labels that exclude each other and features that say nothing; say what the cardinality estimate means."""
    if guess is not None:
        right, share = float(guess.right.mean()), single_share(guess.right, guess.confidence)
        skill = (right - guess.frequent) / max(1 - guess.frequent, 1e-12)
        disagree = cardinality.basis == "duplicates" and 1 / (cardinality.estimate or 1.0) < AGREE
        if share >= SUSPICIOUS and skill >= SKILL and not disagree:
            yield finding("labels-exclusive", right=right, nearest=guess.nearest.mean(), share=share)
        error = float(guess.edge.std() / np.sqrt(len(guess.edge)))
        if len(guess.edge) >= EDGE_ROWS and guess.edge.mean() < STANDARD_ERRORS * error:
            yield finding("tag-unpredictable", right=right)
    if cardinality.shown is not None:
        yield finding("cardinality-list", pairs=cardinality.pairs, shown=cardinality.shown)
    if cardinality.estimate is not None and cardinality.interval is not None:
        low, high = cardinality.interval
        numbers = f"{cardinality.estimate:.2f} (95 % interval {low:.2f} to {high:.2f})"
        code = "cardinality-estimate" if cardinality.basis == "duplicates" else "cardinality-bound"
        yield finding(code, pairs=cardinality.pairs, numbers=numbers)

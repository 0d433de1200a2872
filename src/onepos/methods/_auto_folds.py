"""Which rows the members of ``auto`` are trained on and which they are judged by.

Rows are dealt into folds, and every candidate is trained once a fold, without its rows: all rows judge, and all rows
are learnt from, by all but one of its models. Rows that have a label nobody else has are in every training part.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.features import take
from onepos.methods._holdout import hold_out

#: With fewer labelled rows than this none is held out, and members count alike.
FEWEST_TO_JUDGE = 50
#: With more, a tenth of the rows judges well enough, and training several times what is trained longest pays least.
MOST_IN_FOLDS = 50_000
#: Folds when nobody says how many.
FOLDS = 5


class LabelledRows(NamedTuple):
    """Features and observed labels."""

    features: Any
    observed: NDArray[np.int8]


class Part(NamedTuple):
    """Rows to train on and rows to judge by, if there are any."""

    train: LabelledRows
    held: LabelledRows | None


def parts_of(
    rows: LabelledRows,
    given: LabelledRows | None,
    *,
    complete: bool,
    n_folds: int | None,
    fraction: float,
    generator: np.random.Generator,
) -> list[Part]:
    """Return one part a fold; one part in all where rows are too few to be held out, or too many to be learnt often.

    Parameters
    ----------
    rows : to train on
    given : the caller's validation rows
        With single labels they are rows like the others, as long as there are folds; otherwise they judge.
    complete : whether ``given`` shows all labels of a row
    n_folds : folds; None for as many as suit the number of rows
    fraction : share of the rows to hold out when there is one part
    generator : deals the rows
    """
    labelled = np.flatnonzero((rows.observed > 0).any(axis=1))
    if n_folds is None:
        n_folds = FOLDS if len(labelled) <= MOST_IN_FOLDS else 1
    if given is not None and (complete or n_folds == 1):
        return [Part(rows, given)]
    if given is not None:
        rows = LabelledRows(_below(rows.features, given.features), np.concatenate([rows.observed, given.observed]))
        labelled = np.flatnonzero((rows.observed > 0).any(axis=1))
    if len(labelled) < max(FEWEST_TO_JUDGE, 2 * rows.observed.shape[1]):
        return [Part(rows, None)]
    share = fraction if n_folds == 1 else 1.0
    _, spare = hold_out(rows.observed, labelled, share, generator)
    if n_folds == 1:
        return [_split(rows, labelled, spare)]
    dealt = generator.permutation(spare)
    return [_split(rows, labelled, np.sort(dealt[fold::n_folds])) for fold in range(n_folds)]


def judged_labels(parts: list[Part]) -> NDArray[np.int8] | None:
    """Observed labels of the rows that judge, part after part; None if there are none."""
    held = [part.held.observed for part in parts if part.held is not None]
    return np.concatenate(held) if held else None


def _split(rows: LabelledRows, labelled: NDArray[np.intp], out: NDArray[np.intp]) -> Part:
    kept = np.setdiff1d(labelled, out, assume_unique=True)
    train, held = (LabelledRows(take(rows.features, which), rows.observed[which]) for which in (kept, out))
    return Part(train, held)


def _below(first: Any, second: Any) -> Any:
    """Rows of ``second`` below those of ``first``; sparse if the first are."""
    if sparse.issparse(first):
        return sparse.csr_array(sparse.vstack([first, sparse.csr_array(second)]))
    dense = second.toarray() if sparse.issparse(second) else second
    return np.concatenate([first, dense])

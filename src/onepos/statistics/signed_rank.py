"""The Wilcoxon signed-rank test of two methods over data sets."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from onepos.statistics._pairs import conditional_p, differences

Outcome = Literal["win", "tie", "loss"]

#: Up to this many pairs the exact distribution is used where it applies; beyond, the normal one is as good.
EXACT_UP_TO = 50


class TooFewPairsError(ValueError):
    """No outcome of so few pairs could be significant."""


@dataclass(frozen=True)
class SignedRank:
    """The result of :func:`signed_rank`.

    Attributes
    ----------
    statistic : float
        The smaller of the two rank sums.
    p_value : float
        Two-sided.
    pairs : int
        Pairs that were ranked: those that differ.
    zeros : int
        Pairs of equal values, which were dropped (Wilcoxon's own rule).
    better_ranks, worse_ranks : float
        Rank sums of the pairs in which the first method is better, and worse.
    method : {"exact", "approx", "conditional"}
        "exact": the distribution for untied ranks. "approx": the normal approximation with tie correction.
        "conditional": the exact distribution for the ranks at hand, tied or not, over all their signs.
    continuity : bool
        Whether the approximation was corrected for continuity; False for the other methods.
    alpha : float
        The level of ``outcome``.
    """

    statistic: float
    p_value: float
    pairs: int
    zeros: int
    better_ranks: float
    worse_ranks: float
    method: Literal["exact", "approx", "conditional"]
    continuity: bool
    alpha: float

    @property
    def outcome(self) -> Outcome:
        """How the first method fares: "win" or "loss" if p < alpha, else "tie"."""
        return self.outcome_for(self.p_value)

    def outcome_for(self, p_value: float) -> Outcome:
        """Return the outcome if the p-value were this one, for example after a correction."""
        if p_value >= self.alpha or self.better_ranks == self.worse_ranks:
            return "tie"
        return "win" if self.better_ranks > self.worse_ranks else "loss"


def fewest_pairs(alpha: float = 0.05) -> int:
    """Return how many pairs it takes until the best outcome, with two-sided p = 2^(1-n), is below ``alpha``.

    Examples
    --------
    >>> fewest_pairs(0.05)  # 2^-4 = 0.0625 is not below, 2^-5 = 0.03125 is
    6
    """
    if not 0 < alpha < 1:
        raise ValueError(f"expected a level alpha between 0 and 1; got {alpha}: the paper's is 0.05")
    n = 1
    while 2.0 ** (1 - n) >= alpha:
        n += 1
    return n


def signed_rank(
    first: Sequence[float] | NDArray[Any],
    second: Sequence[float] | NDArray[Any],
    *,
    higher_is_better: bool = True,
    alpha: float = 0.05,
    method: Literal["auto", "exact", "approx", "conditional"] = "auto",
    continuity: bool = True,
) -> SignedRank:
    """Test whether the first method is better or worse than the second over paired values, two-sided.

    Parameters
    ----------
    first, second : sequence of float
        One value a data set, in the same order.
    higher_is_better : bool, default=True
        Which sign of a difference speaks for the first method.
    alpha : float, default=0.05
        Level of ``outcome``.
    method : {"auto", "exact", "approx", "conditional"}, default="auto"
        "auto" takes "exact" if there are at most 50 pairs, no equal pair and no tied difference, else "approx".
        Asked for by name, "exact" is conservative under ties: a half rank sum is rounded towards no difference.
        Where equal pairs leave fewer than ``fewest_pairs(alpha)`` others, it is always "conditional": the
        approximation would find significance that cannot be.
    continuity : bool, default=True
        Correct the approximation for continuity. (The paper used "exact", or where means were equal, "approx"
        without this correction.)

    Raises
    ------
    TooFewPairsError
        Fewer pairs than ``fewest_pairs(alpha)``.

    Examples
    --------
    >>> test = signed_rank([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.89, 0.78, 0.67, 0.56, 0.45, 0.34])
    >>> test.outcome, test.p_value, test.method
    ('win', 0.03125, 'exact')
    """
    better = differences(first, second, higher_is_better)
    needed = fewest_pairs(alpha)
    if len(better) < needed:
        raise TooFewPairsError(
            f"expected at least {needed} pairs; got {len(better)}: with n pairs the smallest possible p-value is "
            f"2^(1-n), so that p < {alpha:g} cannot be reached. Compare on more data sets, or give no test"
        )
    ranked = better[better != 0]
    sizes = np.abs(ranked)
    ranks = stats.rankdata(sizes)
    sums = float(ranks[ranked > 0].sum()), float(ranks[ranked < 0].sum())
    chosen: Literal["exact", "approx", "conditional"]
    if len(ranked) < needed or method == "conditional":
        chosen, p_value = "conditional", conditional_p(ranks, min(sums))
    else:
        plain = len(better) <= EXACT_UP_TO and len(ranked) == len(better) and len(np.unique(sizes)) == len(sizes)
        chosen = method if method != "auto" else ("exact" if plain else "approx")
        with warnings.catch_warnings():
            # Older SciPy warns of few pairs; which method is right for how many is decided above.
            warnings.filterwarnings("ignore", "Sample size too small for normal approximation")
            p_value = float(
                stats.wilcoxon(
                    ranked, zero_method="wilcox", correction=continuity, alternative="two-sided", method=chosen
                ).pvalue
            )
    return SignedRank(
        statistic=min(sums),
        p_value=p_value,
        pairs=len(ranked),
        zeros=len(better) - len(ranked),
        better_ranks=sums[0],
        worse_ranks=sums[1],
        method=chosen,
        continuity=continuity and chosen == "approx",
        alpha=alpha,
    )

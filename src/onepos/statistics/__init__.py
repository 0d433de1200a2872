"""Tests for comparing methods over data sets, as Demšar (JMLR 7, 2006) recommends them.

Two methods: :func:`signed_rank`, and :func:`holm` where one method meets several rivals. Several methods at
once: :func:`friedman`, then :func:`critical_difference` and :func:`cliques` for the diagram.

The unit is the data set: a value is one method's mean over its trials there. Trials of one data set share
its rows and are no independent evidence, so they never enter as pairs of their own.
"""

from onepos.statistics.friedman import Friedman, average_ranks, friedman, friedman_from_ranks
from onepos.statistics.holm import holm
from onepos.statistics.nemenyi import cliques, critical_difference, nemenyi_quantile
from onepos.statistics.signed_rank import SignedRank, TooFewPairsError, fewest_pairs, signed_rank

__all__ = [
    "Friedman",
    "SignedRank",
    "TooFewPairsError",
    "average_ranks",
    "cliques",
    "critical_difference",
    "fewest_pairs",
    "friedman",
    "friedman_from_ranks",
    "holm",
    "nemenyi_quantile",
    "signed_rank",
]

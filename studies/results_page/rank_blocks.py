"""Blocks with tests over data sets: average ranks, and wins and losses of SMILE."""

from onepos_studies.study.spec import is_full_supervision
from onepos_studies.study.statistics import fewest_pairs
from onepos_studies.study.tables import rank_table, significance
from onepos_studies.study.tables.significance import ALPHA
from results_page.layout import turned, write
from results_page.source import Source


def rank_block(source: Source) -> str:
    """Average ranks by each metric, with Friedman's test and the critical difference in the last lines."""
    methods = [method for method in source.methods if not is_full_supervision(method)]
    made = rank_table(source.rows, datasets=source.datasets, methods=methods, expected_trials=source.study.trials)
    return write(turned(made.grid()))


def significance_block(source: Source, method: str = "smile") -> str:
    """One method against each other one, metric by metric; a sentence where nothing can be tested."""
    there = set(source.rows.loc[source.rows["selection"] == "clean", "method"])
    rivals = [key for key in source.methods if key in there and key != method and not is_full_supervision(key)]
    if method not in there or not rivals:
        return f"Not tested: no rows of `{method}` and of another method yet."
    made = significance(
        source.rows, method=method, rivals=rivals, datasets=source.datasets, expected_trials=source.study.trials
    )
    if not any(verdict.test for verdict in made.verdicts.values()):
        most = max(len(verdict.datasets) for verdict in made.verdicts.values())
        return (
            f"Not tested: `{method}` and another method have all {source.study.trials} trials on {most} data sets at "
            f"most, and below {fewest_pairs(ALPHA)} p < {ALPHA:g} cannot be reached."
        )
    return write(turned(made.grid(), "against"))

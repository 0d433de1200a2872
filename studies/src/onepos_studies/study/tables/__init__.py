"""From the rows of a study to its tables.

The results are a DataFrame with one row per cell of the study: ``dataset``, ``features`` ("paper" or
"substitute"), ``method`` (a key), ``trial``, ``selection`` ("clean" or "single-positive": which validation labels
chose the setting), ``status`` ("ok" or "failed") and the five measures; other columns are not looked at. Failed
rows are left out and counted. See :func:`example_results`.

A mean is compared with another only if both cells have all their trials: a method that failed on the hard ones
must not gain by it. Incomplete cells are shown with a mark, but are neither ranked, tested nor set in bold.

=========================  ==========================================================================
:func:`main_table`         mean±std by data set and method, the best in bold, average ranks
:func:`significance`       win, tie or loss against each rival: Wilcoxon over data sets, and Holm
:func:`rank_table`         average ranks with Friedman's test, critical difference and cliques
:func:`compare`            ours beside the paper's, the difference in units of the standard deviation
:func:`selection_table`    clean beside single-positive selection
=========================  ==========================================================================

Each returns a table with its values as attributes, ``frame()`` for all numbers, ``grid()`` for what is read;
:func:`render` writes it as Markdown, LaTeX, CSV or for a terminal.
"""

from onepos_studies.study.tables.compare import (
    PAPER_METHODS,
    SUBSTITUTES,
    Comparison,
    Pair,
    compare,
    in_stds,
    load_published,
    published_value,
)
from onepos_studies.study.tables.formats import FORMATS, Cell, Grid, Table, render, to_latex, to_markdown, to_terminal
from onepos_studies.study.tables.main_table import SELECTIONS, MainTable, Summary, Which, example_results, main_table
from onepos_studies.study.tables.selection import BothRules, SelectionTable, selection_table
from onepos_studies.study.tables.significance import (
    MetricRanks,
    RankTable,
    Significance,
    Verdict,
    rank_table,
    significance,
)

__all__ = [
    "FORMATS",
    "PAPER_METHODS",
    "SELECTIONS",
    "SUBSTITUTES",
    "BothRules",
    "Cell",
    "Comparison",
    "Grid",
    "MainTable",
    "MetricRanks",
    "Pair",
    "RankTable",
    "SelectionTable",
    "Significance",
    "Summary",
    "Table",
    "Verdict",
    "Which",
    "compare",
    "example_results",
    "in_stds",
    "load_published",
    "main_table",
    "published_value",
    "rank_table",
    "render",
    "selection_table",
    "significance",
    "to_latex",
    "to_markdown",
    "to_terminal",
]

"""From the rows of a study to its tables.

The results are a DataFrame with one row per cell of the study: ``dataset``, ``features`` ("paper" or
"substitute"), ``method`` (a key), ``trial``, ``selection`` ("clean" or "single-positive": which validation labels
chose the setting), ``status`` ("ok" or "failed") and the five measures; other columns are not looked at. Failed
rows are left out and counted.

A mean is compared with another only if both cells have all their trials: a method that failed on the hard ones
must not gain by it. Incomplete cells are shown with a mark, but are neither ranked, tested nor set in bold.

:func:`main_table` has its values as attributes and ``grid()``; the other functions return a :class:`Grid`, with all
numbers in ``data``. :func:`render` writes a grid as Markdown, LaTeX, CSV or for a terminal.
"""

from onepos_studies.study.tables.beside import (
    PAPER_METHODS,
    SUBSTITUTES,
    compare,
    in_stds,
    load_published,
    published_value,
    selection_table,
)
from onepos_studies.study.tables.grid import FORMATS, Cell, Grid, render, to_markdown
from onepos_studies.study.tables.main_table import SELECTIONS, MainTable, Summary, main_table
from onepos_studies.study.tables.significance import ALPHA, MetricRanks, metric_ranks, rank_table, significance

__all__ = [
    "ALPHA",
    "FORMATS",
    "PAPER_METHODS",
    "SELECTIONS",
    "SUBSTITUTES",
    "Cell",
    "Grid",
    "MainTable",
    "MetricRanks",
    "Summary",
    "compare",
    "in_stds",
    "load_published",
    "main_table",
    "metric_ranks",
    "published_value",
    "rank_table",
    "render",
    "selection_table",
    "significance",
    "to_markdown",
]

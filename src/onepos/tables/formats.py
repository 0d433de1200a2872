"""Every table in every format: Markdown, LaTeX, CSV, terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onepos.tables._latex import latex
from onepos.tables._markdown import markdown
from onepos.tables._terminal import rich_group, terminal
from onepos.tables.grid import Table

if TYPE_CHECKING:
    from rich.console import Group

#: What :func:`render` writes, and the ending of a file that holds it.
FORMATS: Mapping[str, str] = {"markdown": ".md", "latex": ".tex", "csv": ".csv", "terminal": ".txt"}


def render(table: Table, form: str = "markdown", *, names: Mapping[str, str] | None = None, bare: bool = False) -> str:
    """Write a table in the format named ``form``; the other parameters as in :func:`to_markdown`.

    Examples
    --------
    >>> from onepos.tables import example_results, main_table
    >>> render(main_table(example_results(), "one_error"), "csv").splitlines()[0]
    'metric,selection,dataset,method,mean,std,count,best,incomplete,features'
    """
    if form not in FORMATS:
        raise ValueError(f"expected a format among {', '.join(FORMATS)}; got {form!r}: choose one of these")
    if form == "csv":
        return to_csv(table)
    writer = {"markdown": to_markdown, "latex": to_latex, "terminal": to_terminal}[form]
    return writer(table, names=names, bare=bare)


def to_markdown(table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False) -> str:
    """Write a Markdown table.

    Parameters
    ----------
    table : MainTable, Significance, RankTable, Comparison or SelectionTable
    names : mapping of str to str, optional
        Names to show in place of the keys of methods.
    bare : bool, default=False
        Leave out the title and the notes.

    Examples
    --------
    >>> from onepos.tables import example_results, main_table
    >>> table = main_table(example_results(), "average_precision")
    >>> print(to_markdown(table, names={"smile": "SMILE"}, bare=True), end="")
    | data set | SMILE | an | bce |
    | --- | ---: | ---: | ---: |
    | scene | **.830±.014** | .805±.007 | .875±.007 |
    | yeast | **.755±.007** | .740†1 | .775±.007 |
    | average rank | **1.00** | 2.00 | – |
    """
    return markdown(table.grid(names), bare=bare)


def to_latex(table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False) -> str:
    r"""Write a LaTeX table with booktabs rules, a ``tabular`` alone if ``bare``; parameters as in :func:`to_markdown`.

    Examples
    --------
    >>> from onepos.tables import example_results, main_table
    >>> table = main_table(example_results(), "average_precision", datasets=["scene"], methods=["smile", "bce"])
    >>> print(to_latex(table, bare=True).splitlines()[4])
    scene & \textbf{.830$\pm$.014} & .875$\pm$.007 \\
    """
    return latex(table.grid(names), bare=bare)


def to_csv(table: Table) -> str:
    """Write one line a cell, every number in a column of its own with all its digits; keys stay keys."""
    return str(table.frame().to_csv(index=False, lineterminator="\n"))


def to_terminal(
    table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False, width: int | None = None
) -> str:
    """Write plain text with a * after what is bold, in blocks of columns if ``width`` is too small for all.

    Parameters as in :func:`to_markdown`. Needs rich.

    Examples
    --------
    >>> from onepos.tables import example_results, main_table
    >>> print(to_terminal(main_table(example_results(), "average_precision", methods=["smile", "an"]), bare=True))
      data set            smile          an
     ───────────────────────────────────────
      scene          .830±.014*   .805±.007
      yeast          .755±.007*      .740†1
    <BLANKLINE>
      average rank        1.00*        2.00
    <BLANKLINE>
    """
    return terminal(table.grid(names), bare=bare, width=width)


def to_rich(
    table: Table, *, names: Mapping[str, str] | None = None, bare: bool = False, width: int | None = None
) -> "Group":
    """Return what a rich console prints with real bold; parameters as in :func:`to_terminal`.

    Give the console's width: beyond it rich would cut the numbers.
    """
    return rich_group(table.grid(names), bare=bare, width=width)

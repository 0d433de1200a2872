"""Every table in every format: whole, escaped, and in CSV with all digits."""

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepos_studies.study.tables import (
    FORMATS,
    Cell,
    Grid,
    compare,
    main_table,
    rank_table,
    render,
    selection_table,
    significance,
    to_latex,
    to_markdown,
    to_terminal,
)
from onepos_studies.study.tables.formats import mean_std, p_text, short
from table_frames import make_frame

NASTY = r"a_b & 50% {x} | *y* <z> \n $#~^"


class Fixed:
    """A table that is one given grid."""

    def __init__(self, grid):
        self.given = grid

    def grid(self, names=None):
        return self.given

    def frame(self):
        return pd.DataFrame()


def one_cell(text, **options):
    return Fixed(Grid("title", ("head", "x"), ((Cell("row"), Cell(text, **options)),)))


@pytest.fixture(scope="module")
def tables(random_results):
    return {
        "main": main_table(random_results, "average_precision"),
        "significance": significance(random_results),
        "ranks": rank_table(random_results),
        "compare": compare(random_results),
        "selection": selection_table(random_results),
    }


KINDS = ("main", "significance", "ranks", "compare", "selection")


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_has_every_row_with_every_column(tables, kind):
    grid = tables[kind].grid()
    lines = to_markdown(tables[kind], bare=True).splitlines()
    assert len(lines) == 2 + len(grid.rows) + len(grid.footer)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(grid.header) + 1}
    whole = to_markdown(tables[kind])
    assert whole.startswith(f"**{grid.title}**\n\n| ")
    assert to_markdown(tables[kind], bare=True).strip() in whole


@pytest.mark.parametrize("kind", KINDS)
def test_latex_has_every_row_with_every_column(tables, kind):
    grid = tables[kind].grid()
    text = to_latex(tables[kind])
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(lines) == 1 + len(grid.rows) + len(grid.footer)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(grid.header) - 1}
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text).group(1)
    assert len(columns) == len(grid.header)
    assert text.count(r"\midrule") == 1
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    assert text.isascii()
    assert text.replace(r"\{", "").count("{") == text.replace(r"\}", "").count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    assert "table}" not in to_latex(tables[kind], bare=True)


@pytest.mark.parametrize("kind", KINDS)
def test_csv_gives_back_every_digit(tables, kind):
    records = tables[kind].frame().to_dict("records")
    again = list(csv.DictReader(io.StringIO(render(tables[kind], "csv"))))
    assert len(again) == len(records) > 0
    for read, record in zip(again, records, strict=True):
        assert list(read) == list(record)
        for name, value in record.items():
            if isinstance(value, float):
                assert float(read[name] or "nan") == value or np.isnan(value)
            else:
                assert read[name] == str(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [None, 60, 100])
def test_terminal_shows_every_cell_whole(tables, kind, width):
    grid = tables[kind].grid()
    text = to_terminal(tables[kind], width=width)
    assert "…" not in text
    for row in (*grid.rows, *grid.footer):
        for cell in row:
            assert cell.text + ("*" if cell.bold else "") + cell.mark in text
    assert all(title in text for title in grid.header)
    if width:
        assert max(map(len, text.splitlines())) <= width
    else:
        assert (
            sum(line.rstrip() == grid.header[0] or line.startswith(f"{grid.header[0]} ") for line in text.splitlines())
            >= 1
        )


def test_terminal_blocks_repeat_the_words_and_lose_no_column():
    header = ("data set", *(f"method{i}" for i in range(7)))
    wide = Fixed(Grid("t", header, ((Cell("scene"), *(Cell(f".10{i}") for i in range(7))),)))
    lines = to_terminal(wide, bare=True, width=50).splitlines()
    assert max(map(len, lines)) <= 50
    assert sum("scene" in line for line in lines) == sum("data set" in line for line in lines) > 1
    shown = [word for line in lines if "scene" in line for word in line.split()[1:] if word != "\\"]
    assert shown == [f".10{i}" for i in range(7)]


def test_bold_and_marks():
    table = one_cell(".433±.023", bold=True, mark="†3")
    assert "| **.433±.023**†3 |" in to_markdown(table)
    assert r"\bfseries .433$\pm$.023$\dagger$3 \\" in to_latex(table)
    assert ".433±.023*†3" in to_terminal(table)


def test_escapes():
    assert r"a\_b & 50% {x} \| \*y\* \<z\> \\n $#~^" in to_markdown(one_cell(NASTY))
    assert r"a\_b \& 50\% \{x\} | *y* $<$z$>$ \textbackslash n \$\#\textasciitilde \textasciicircum  \\" in to_latex(
        one_cell(NASTY)
    )
    assert NASTY in to_terminal(one_cell(NASTY))
    assert "| row | two lines |" in to_markdown(one_cell("two\nlines"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-.012", "$-$.012"),
        ("-∞ [0.1]", r"$-\infty$ [0.1]"),
        ("rcv1-s1", "rcv1-s1"),
        ("an-2", "an-2"),
        ("χ²", r"$\chi^2$"),
        ("5$±", r"5\$$\pm$"),
        ("–", "--"),
    ],
)
def test_latex_symbols(text, expected):
    assert f"row & {expected} " in to_latex(one_cell(text))


def test_latex_takes_no_cell_for_an_option_of_the_line_before():
    grid = Grid("t", ("[a]", "b"), ((Cell("[c]"), Cell("[d]")),))
    assert "\n{}[c] & [d] " in to_latex(Fixed(grid), bare=True)


def test_names_replace_keys_except_in_csv(random_results):
    table = main_table(random_results, "coverage")
    for form in FORMATS:
        assert ("S-M" in render(table, form, names={"smile": "S-M"})) == (form != "csv")


def test_an_unknown_format_is_refused(random_results):
    with pytest.raises(ValueError, match="markdown, latex, csv, terminal; got 'html'"):
        render(main_table(random_results, "coverage"), "html")


def test_a_ragged_grid_is_refused():
    with pytest.raises(ValueError, match="expected 2 cells per row"):
        Grid("t", ("a", "b"), ((Cell("only one"),),))


@given(st.floats(-2000, 2000))
def test_short_numbers_are_the_rounded_ones(value):
    text = short(value)
    assert float(text) == round(value, 3)
    assert not text.startswith(("0.", "-0"))
    assert short(value, sign=True).lstrip("+") == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, ".000"), (1, "1.000"), (10.05, "10.050"), (-0.0004, ".000"), (np.inf, "∞"), (np.nan, "–")]
)
def test_short_numbers(value, text):
    assert short(value) == text


def test_unknown_parts_are_left_out():
    assert mean_std(np.nan, np.nan) == "–"
    assert mean_std(0.5, 0.0) == ".500±.000"
    assert [p_text(p) for p in (1.0, 0.00005, 0.0000499, 0.0)] == ["1.0000", "0.0001", "<0.0001", "<0.0001"]


def test_incomplete_cells_in_every_format():
    table = main_table(make_frame({("a", "x"): [0.1, 0.2], ("a", "y"): [0.3, None]}), "coverage")
    assert ".300†1" in to_markdown(table)
    assert r".300$\dagger$1" in to_latex(table)
    assert ".300†1" in to_terminal(table)
    again = pd.read_csv(io.StringIO(render(table, "csv"))).set_index("method")
    assert again.loc["y", "count"] == 1
    assert again.loc["y", "incomplete"]

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
    to_markdown,
)
from onepos_studies.study.tables.grid import mean_std, p_text, short
from table_frames import make_frame

NASTY = r"a_b & 50% {x} | *y* <z> \n $#~^"


def one_cell(text, **options):
    return Grid("title", ("head", "x"), ((Cell("row"), Cell(text, **options)),))


@pytest.fixture(scope="module")
def tables(random_results):
    return {
        "main": main_table(random_results, "average_precision").grid(),
        "significance": significance(random_results),
        "ranks": rank_table(random_results),
        "compare": compare(random_results),
        "selection": selection_table(random_results),
    }


KINDS = ("main", "significance", "ranks", "compare", "selection")


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_has_every_row_with_every_column(tables, kind):
    grid = tables[kind]
    lines = [line for line in to_markdown(grid).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(grid.rows)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(grid.header) + 1}
    assert render(grid) == f"**{grid.title}**\n\n{to_markdown(grid)}"


@pytest.mark.parametrize("kind", KINDS)
def test_latex_has_every_row_with_every_column(tables, kind):
    grid = tables[kind]
    text = render(grid, "latex")
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(lines) == 1 + len(grid.rows)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(grid.header) - 1}
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text).group(1)
    assert len(columns) == len(grid.header)
    assert text.count(r"\midrule") == 1
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    assert text.replace(r"\{", "").count("{") == text.replace(r"\}", "").count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_csv_gives_back_every_digit(tables, kind):
    records = tables[kind].data.to_dict("records")
    again = list(csv.DictReader(io.StringIO(render(tables[kind], "csv"))))
    assert len(again) == len(records) > 0
    for read, record in zip(again, records, strict=True):
        assert list(read) == list(record)
        for name, value in record.items():
            if isinstance(value, float):
                assert float(read[name] or "nan") == value or np.isnan(value)
            else:
                assert read[name] == ("" if value is None else str(value))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [None, 60, 100])
def test_terminal_shows_every_cell_whole(tables, kind, width):
    grid = tables[kind]
    text = render(grid, "terminal", width=width)
    assert "…" not in text
    for row in grid.rows:
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
    wide = Grid("t", header, ((Cell("scene"), *(Cell(f".10{i}") for i in range(7))),))
    lines = render(wide, "terminal", width=50).splitlines()
    assert max(map(len, lines)) <= 50
    assert sum("scene" in line for line in lines) == sum("data set" in line for line in lines) > 1
    shown = [word for line in lines if "scene" in line for word in line.split()[1:] if word != "\\"]
    assert shown == [f".10{i}" for i in range(7)]


def test_bold_and_marks():
    table = one_cell(".433±.023", bold=True, mark="†3")
    assert "| **.433±.023**†3 |" in to_markdown(table)
    assert r"\bfseries .433±.023†3 \\" in render(table, "latex")
    assert ".433±.023*†3" in render(table, "terminal")


def test_escapes():
    assert r"a\_b & 50% {x} \| \*y\* \<z\> \\n $#~^" in to_markdown(one_cell(NASTY))
    assert r"a\_b \& 50\% \{x\} | *y* <z> \textbackslash n \$\#\textasciitilde \textasciicircum  \\" in render(
        one_cell(NASTY), "latex"
    )
    assert NASTY in render(one_cell(NASTY), "terminal")
    assert "| row | two lines |" in to_markdown(one_cell("two\nlines"))


@pytest.mark.parametrize(("text", "expected"), [("-.012", "$-$.012"), ("rcv1-s1", "rcv1-s1"), ("an-2", "an-2")])
def test_latex_minus(text, expected):
    assert f"row & {expected} " in render(one_cell(text), "latex")


def test_latex_takes_no_cell_for_an_option_of_the_line_before():
    grid = Grid("t", ("[a]", "b"), ((Cell("[c]"), Cell("[d]")),))
    assert "\n{}[c] & [d] " in render(grid, "latex")


def test_names_replace_keys_except_in_csv(random_results):
    table = main_table(random_results, "coverage").grid()
    for form in FORMATS:
        assert ("S-M" in render(table, form, names={"smile": "S-M"})) == (form != "csv")


def test_an_unknown_format_is_refused(random_results):
    with pytest.raises(ValueError, match="markdown, latex, csv, terminal; got 'html'"):
        render(main_table(random_results, "coverage").grid(), "html")


@given(st.floats(-2000, 2000))
def test_short_numbers_are_the_rounded_ones(value):
    text = short(value)
    assert float(text) == round(value, 3)
    assert not text.startswith(("0.", "-0"))
    assert short(value, sign=True).lstrip("+") == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, ".000"), (1, "1.000"), (10.05, "10.050"), (-0.0004, ".000"), (np.inf, "–"), (np.nan, "–")]
)
def test_short_numbers(value, text):
    assert short(value) == text


def test_unknown_parts_are_left_out():
    assert mean_std(np.nan, np.nan) == "–"
    assert mean_std(0.5, 0.0) == ".500±.000"
    assert [p_text(p) for p in (1.0, 0.00005, 0.0000499, 0.0)] == ["1.0000", "0.0001", "<0.0001", "<0.0001"]


def test_incomplete_cells_in_every_format():
    table = main_table(make_frame({("a", "x"): [0.1, 0.2], ("a", "y"): [0.3, None]}), "coverage").grid()
    assert ".300†1" in to_markdown(table)
    assert r".300†1" in render(table, "latex")
    assert ".300†1" in render(table, "terminal")
    again = pd.read_csv(io.StringIO(render(table, "csv"))).set_index("method")
    assert again.loc["y", "count"] == 1
    assert again.loc["y", "incomplete"]

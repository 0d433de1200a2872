"""Every command and every code block of the README runs, in order, and prints what the README shows."""

import io
import json
import re
import shlex
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

from onepos.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, source in BLOCKS if kind == "console" for line in source.splitlines()]
SHOWN = [line for kind, source in BLOCKS if kind == "text" for line in source.splitlines() if line.strip()]
NUMBER = re.compile(r"\d[\d,.]*%?")


def test_only_known_kinds_of_blocks():
    assert {kind for kind, _ in BLOCKS} == {"python", "console", "text"}


def test_it_is_short():
    assert len(README.splitlines()) < 120


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder in which all commands ran, and what they printed."""
    folder, printed = tmp_path_factory.mktemp("readme"), io.StringIO()
    with chdir(folder), redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("default")
        for command in COMMANDS:
            with pytest.raises(SystemExit) as ended:
                main(shlex.split(command)[1:])
            assert ended.value.code == 0, command
    return folder, printed.getvalue()


@pytest.mark.slow
def test_the_commands_print_what_is_shown(ran):
    """Word for word. Of the scores, two hundredths may differ: another processor rounds otherwise."""
    actual = {NUMBER.sub("#", line.strip()): line for line in ran[1].splitlines()}
    for line in SHOWN:
        key = NUMBER.sub("#", line.strip())
        assert key in actual, line
        for said, found in zip(NUMBER.findall(line), NUMBER.findall(actual[key]), strict=True):
            said, found = (float(text.strip("%.,").replace(",", "")) for text in (said, found))
            assert found == pytest.approx(said, rel=0.02, abs=2 if "%" in line and said < 100 else 0.02), line


def test_the_other_rows_are_those_of_the_comparison():
    page = (ROOT / "docs" / "instead.md").read_text(encoding="utf-8")
    for data, made in (
        ("4,000 × 384", "4,000 × 384 embeddings"),
        ("600 × 72", "600 × 72"),
    ):
        (row,) = [line for line in README.splitlines() if line.startswith(f"| {data}")]
        (source,) = [line for line in page.splitlines() if line.startswith(f"| {made}")]
        assert re.findall(r"\.\d{3}", row) == re.findall(r"\.\d{3}", source)[1:]
    (row,) = [line for line in README.splitlines() if line.startswith("| Netflix")]
    commands = (
        "LogisticRegression",
        "ExtraTreesClassifier",
        "onepos fit --budget 60",
        "onepos fit --budget 60 --embed MiniLM",
    )
    sources = [next(line for line in page.splitlines() if line.startswith(f"| `{command}` |")) for command in commands]
    assert re.findall(r"\.\d{3}", row) == [re.findall(r"\.\d{3}", source)[0] for source in sources]
    (row,) = [line for line in README.splitlines() if line.startswith("| nine benchmark sets")]
    table = page.partition("<!-- sets -->")[2].partition("<!-- end of sets -->")[0]
    lines = [[cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines() if " s, " in line]
    assert len(lines) == 9
    for shown, column in zip(re.findall(r"\.\d{3}", row), (0, 1, 3), strict=True):
        assert float(shown) == pytest.approx(sum(float(line[column].split()[0]) for line in lines) / 9, abs=1e-3)


def test_what_the_comparison_says_about_generated_tables():
    rows = [json.loads(line) for line in (ROOT / "benchmarks" / "default_path.jsonl").read_text().splitlines()]
    found = {}
    for row in rows:
        if row["section"] == "shapes":
            found.setdefault((row["data"], row["seed"]), {})[row["what"]] = row
    gains = [row["auto 60"]["ap"] - max(row["logistic"]["ap"], row["forest"]["ap"]) for row in found.values()]
    page = " ".join((ROOT / "docs" / "instead.md").read_text(encoding="utf-8").split())
    assert len(gains) == 12
    low, high = (f"{gain:.3f}".removeprefix("0") for gain in (min(gains), max(gains)))
    assert f"ahead of `logistic` and `forest` on all twelve tables, by {low} to {high}." in page
    assert max(row["auto 60"]["seconds"] for row in found.values()) < 1.15 * 60 + 5


@pytest.mark.slow
def test_python_blocks_run_in_sequence(ran, monkeypatch):
    monkeypatch.chdir(ran[0])
    namespace = {}
    for kind, source in BLOCKS:
        if kind == "python":
            exec(compile(source, "README.md", "exec"), namespace)
    assert 1.8 < namespace["tags"].to_numpy().sum(axis=1).mean() < 2.4

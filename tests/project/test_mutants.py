"""The changes that mutation testing makes: real changes, one at a time, and none where only words would change."""

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "reliability"


@pytest.fixture(scope="module")
def operators():
    spec = importlib.util.spec_from_file_location("mutation_operators", FOLDER / "mutation_operators.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutation_operators"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


def made(operators, source):
    return {mutant.source for mutant in operators.mutants(source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a + b", {"a - b"}),
        ("a < b", {"a <= b"}),
        ("not a", {"a"}),
        ("a and b", {"a or b"}),
        ("x.clamp(0)", {"x", "x.clamp(1)", "x.clamp(-1)"}),
        ("np.exp(x)", set()),
        ("f(True)", {"f(False)"}),
        ("1 if a else b", {"1 if True else b", "1 if False else b", "2 if a else b"}),
        ("a < b < 3", {"a <= b < 3", "a < b <= 3", "a < b < 4"}),
    ],
)
def test_changes_of_an_expression(operators, source, expected):
    assert made(operators, f"y = {source}") == {f"y = {change}" for change in expected}


def test_a_statement_can_be_dropped(operators):
    assert made(operators, "total += x") == {"total -= x", "pass"}


def test_words_are_left_alone(operators):
    source = '''
"""A module of 1 + 1."""
__all__ = ["f"]

def f(x: int = (1 if 2 else 3) and None) -> "int":
    """Return 1."""
    if x:
        raise ValueError(f"expected 1 + 1; got {x + 2}")
'''
    lines = {mutant.change for mutant in operators.mutants(source)}
    assert lines == {"condition → True", "condition → False", "And → Or", "1 → 2", "2 → 3", "3 → 4"}


def test_every_mutant_is_another_program_that_compiles(operators):
    source = (FOLDER.parents[1] / "src" / "onepos" / "training" / "losses.py").read_text(encoding="utf-8")
    mutants = list(operators.mutants(source))
    assert len(mutants) > 50
    assert len({mutant.source for mutant in mutants}) == len(mutants)
    plain = ast.unparse(ast.parse(source))
    for mutant in mutants:
        compile(mutant.source, "mutant", "exec")
        assert mutant.source != plain


def test_the_stored_counts_add_up():
    stored = json.loads((FOLDER / "mutants.json").read_text(encoding="utf-8"))
    for counts in stored.values():
        assert counts["killed"] + len(counts["survivors"]) == counts["mutants"]

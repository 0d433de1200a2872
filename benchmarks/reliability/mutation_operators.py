"""Small wrong changes of Python source, one at a time: what a test suite should notice.

Docstrings, annotations, messages of errors and ``__all__`` are left alone: a changed word there is no wrong result.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
}
_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Mutant:
    """A changed module: where, what was changed, and the whole new source."""

    line: int
    change: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module's source, in the order of its lines."""
    tree = ast.parse(source)
    for number, node in enumerate(ast.walk(tree)):
        node._number = number  # type: ignore[attr-defined]
    left_alone = set(_left_alone(tree))
    found: dict[str, Mutant] = {}
    for node in ast.walk(tree):
        if node._number in left_alone or not hasattr(node, "lineno"):  # type: ignore[attr-defined]
            continue
        for change, make in _changes(node):
            mutated = ast.unparse(ast.fix_missing_locations(_Replace(node._number, make).visit(copy.deepcopy(tree))))  # type: ignore[attr-defined]
            found.setdefault(mutated, Mutant(node.lineno, change, mutated))
    yield from sorted(found.values(), key=lambda mutant: mutant.line)


class _Replace(ast.NodeTransformer):
    def __init__(self, number: int, make: Callable[[ast.AST], ast.AST]) -> None:
        self.number, self.make = number, make

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if getattr(node, "_number", None) == self.number:
            return self.make(node)
        return super().generic_visit(node)


def _left_alone(tree: ast.AST) -> Iterator[int]:
    """Numbers of the nodes in docstrings, annotations, raised errors, imports and ``__all__``."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom):
            parts = [node]
        elif isinstance(node, ast.Expr):
            parts = [node] if isinstance(node.value, ast.Constant) else []
        elif isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            parts = [node] if node.targets[0].id in ("__all__", "Array", "Indices", "_Partial") else []
        for part in parts:
            if part is not None:
                yield from (inner._number for inner in ast.walk(part))  # type: ignore[attr-defined]


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        other = _ARITHMETIC[type(node.op)]
        yield f"{type(node.op).__name__} → {other.__name__}", _setter("op", other())
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            if type(operator) in _COMPARISONS:
                other = _COMPARISONS[type(operator)]
                changed = [other() if i == place else kept for i, kept in enumerate(node.ops)]
                yield f"{type(operator).__name__} → {other.__name__}", _setter("ops", changed)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{type(node.op).__name__} → {other.__name__}", _setter("op", other())
    elif isinstance(node, ast.UnaryOp):
        yield f"{type(node.op).__name__} dropped", lambda found: found.operand  # type: ignore[attr-defined]
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        for value in (True, False):
            if not (value and isinstance(node, ast.While)):
                yield f"condition → {value}", _setter("test", ast.Constant(value))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_value(node.func.value):
        yield f".{node.func.attr}() dropped", lambda found: found.func.value  # type: ignore[attr-defined]
    if isinstance(node, ast.AugAssign | ast.Expr):
        yield "statement dropped", lambda found: ast.copy_location(ast.Pass(), found)


def _constants(node: ast.Constant) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} → {not value}", _setter("value", not value)
    elif isinstance(value, int | float):
        for other in (value + 1, value / 2 if isinstance(value, float) and value else -1 if value == 0 else None):
            if other is not None:
                yield f"{value} → {other}", _setter("value", other)
    elif isinstance(value, str) and value:
        yield f"{value!r} → another text", _setter("value", f"{value}?")


def _is_value(node: ast.AST) -> bool:
    """Whether a call's object is a value, as in ``x.clamp(0)``, and no module or class."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        node = node.value if node.value.id in ("np", "torch") else node
    return not (isinstance(node, ast.Name) and node.id in ("np", "torch", "functional", "math", "sparse", "dict"))


def _setter(field: str, value: object) -> Callable[[ast.AST], ast.AST]:
    def change(node: ast.AST) -> ast.AST:
        setattr(node, field, value)
        return node

    return change

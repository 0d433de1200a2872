"""The code and the data that made a row, and a check that its numbers can be repeated."""

import ast
import hashlib
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import onepos
from onepos._utils.machine import machine, versions
from onepos.methods.registry import METHODS, get_method
from onepos.metrics import METRICS
from onepos_studies.study.cells import Cell, Source, data_set
from onepos_studies.study.spec import digest

if TYPE_CHECKING:
    import pandas as pd

_ROOT = Path(onepos.__file__).parent
#: Packages whose code decides numbers. Readers of files are not among them: a row names its data by their content.
_FOLLOWED = (
    *("graph", "label_sets", "methods", "metrics", "rows", "training"),
    *("datasets._single_positive", "_utils.validation"),
)
#: What every cell runs besides its method.
_ALWAYS = ("study.execute", "study.cells", "metrics", "datasets._single_positive")
_REGISTRY = "methods.registry"


@cache
def code_version(key: str) -> str:
    """Return a hash of the code that decides the numbers of a method: its file, and all that it imports for them.

    Comments, docstrings, annotations, layout and the messages of errors do not count. Neither does the code that turns
    the columns of a table into features.
    """
    record = get_method(key)
    own = record.load_class().__module__
    found = {base.__module__ for base in record.load_class().__mro__}
    files, names = set[Path](), [f"onepos.{name}" for name in _ALWAYS] + sorted(found)
    while names:
        name = names.pop()
        path = _source(name, own)
        if path is None or path in files:
            continue
        files.add(path)
        if name.removeprefix("onepos.") not in ("study.execute", "study.cells"):
            imported = set(_read(path)[1])
            if f"onepos.{_REGISTRY}" in imported:  # it may build any method
                imported |= {method.load_class().__module__ for method in METHODS.values()}
            names += sorted(imported)
    return digest([record.preset, sorted(_read(path)[0] for path in files)])


def _source(name: str, own: str) -> Path | None:
    """Return the file of a module whose code counts, or None."""
    if name.partition(".")[0] != "onepos":
        # A method of somebody else counts with its own file; scikit-learn and the like by their versions.
        origin = getattr(sys.modules[name], "__file__", None) if name == own else None
        return None if origin is None else Path(origin)
    inner = name.removeprefix("onepos.")
    if inner == _REGISTRY or not any(inner == one or inner.startswith(f"{one}.") for one in (*_FOLLOWED, *_ALWAYS)):
        return None
    path = _ROOT.joinpath(*inner.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _read(path: Path) -> tuple[str, set[str]]:
    """Return the hash of a file, and the names of modules, and of what might be modules, that it imports."""
    source = path.read_text(encoding="utf-8")
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return file_version(source), names


def file_version(source: str) -> str:
    """Return a hash of what a Python file does."""
    return digest(_plain(ast.parse(source)))


def _plain(node: Any) -> Any:
    """Return a syntax tree as lists; fields without content are left out, as versions of Python differ in them."""
    if isinstance(node, list):
        return [_plain(item) for item in node if not _is_mute(item)]
    if not isinstance(node, ast.AST):
        return repr(node)
    mute = ("annotation", "returns", "type_comment", "kind", "ctx") if not isinstance(node, ast.AnnAssign) else ("ctx",)
    fields = [] if isinstance(node, ast.Raise) else ast.iter_fields(node)
    kept = [[name, _plain(value)] for name, value in fields if name not in mute and value not in (None, [])]
    return [type(node).__name__, kept]


def _is_mute(item: Any) -> bool:
    """Tell whether a statement is an import, whose target is looked at itself, or a docstring."""
    if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
        return isinstance(item.value.value, str)
    return isinstance(item, ast.Import | ast.ImportFrom)


@cache
def data_version(source: Source) -> str:
    """Return a hash of the features and complete labels of a data set; of a file of the user's own, its checksum."""
    if source.file:
        return source.sha256[:16]
    X, Y, *_ = data_set(source)
    if hasattr(X, "columns"):
        from pandas.util import hash_pandas_object

        X = hash_pandas_object(X, index=False).to_numpy()
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [np.ascontiguousarray(X)]
    made = hashlib.sha256(repr([X.shape, *((part.dtype.str, part.shape) for part in (*parts, Y))]).encode())
    for part in (*parts, np.ascontiguousarray(Y)):
        made.update(part.data)
    return made.hexdigest()[:16]


#: How far a metric may be from its row: with the processor and all versions of the row, and elsewhere, where numbers
#: are rounded differently and training makes more of it.
SAME_MACHINE, OTHER_MACHINE = 1e-9, 5e-3


@dataclass(frozen=True)
class Repeated:
    """A cell that was run again: each metric as stored and as found now, and how far apart they may be."""

    cell: str
    metrics: dict[str, tuple[float, float]]
    tolerance: float
    error: str | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.cell}: {self.error}"
        far = [(name, *pair) for name, pair in self.metrics.items() if abs(pair[0] - pair[1]) > self.tolerance]
        said = ", ".join(f"{name.replace('_', ' ')} {new:.6f}, stored {old:.6f}" for name, old, new in far)
        return f"{self.cell}: {said or 'equal'} (tolerance {self.tolerance:g})"

    @property
    def holds(self) -> bool:
        """Whether every metric is within the tolerance."""
        return self.error is None and all(abs(old - new) <= self.tolerance for old, new in self.metrics.values())


def made_by_this_code(frame: "pd.DataFrame") -> Any:
    """Return a boolean array: which rows were made by the code that runs now. Old rows do not name their code."""
    if not len(frame) or "code" not in frame:
        return np.zeros(len(frame), dtype=bool)
    versions_now = {key: _code_now(key) for key in frame["key"].unique()}
    return (frame["code"] == frame["key"].map(versions_now)).to_numpy(dtype=bool)


def _code_now(key: str) -> str | None:
    try:
        return code_version(key)
    except ValueError:  # a method of a package that is not installed
        return None


def repeat_rows(
    frame: "pd.DataFrame", cells: list[Cell], *, n: int, seed: int, most_seconds: float = 60.0
) -> list[Repeated]:
    """Run up to ``n`` random good rows of this code again and compare; none that are slow or stop by the clock."""
    from onepos_studies.study.execute import run_cells

    known = {cell.id: cell for cell in cells}
    good = frame[(frame["status"] == "ok") & made_by_this_code(frame) & (frame["seconds"] <= most_seconds)]
    rows = [row for row in good.to_dict("records") if row["cell"] in known and not known[row["cell"]].stops_by_clock]
    chosen = np.random.default_rng(seed).permutation(len(rows))[:n]
    made = []
    for row in (rows[i] for i in chosen):
        cell = known[row["cell"]]
        found = run_cells([cell], [json.loads(row["setting"]) if cell.takes_over is not None else None])[0]
        same = json.loads(row["versions"]) == versions() and json.loads(row["machine"]) == machine()
        error = found["error"]
        if error is None and found["data"] != row["data"]:
            error = f"the data set {cell.dataset} has changed since"
        pairs = {name: (float(row[name]), float(found[name])) for name in METRICS}
        made.append(Repeated(cell.id, pairs, SAME_MACHINE if same else OTHER_MACHINE, error))
    return made

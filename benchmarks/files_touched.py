"""Follow the path of a fit through the package: ``python benchmarks/files_touched.py``.

Two fits are traced: ``SMILEClassifier().fit`` and ``onepos fit table.csv --label tag --method smile``. Printed are


- how many functions of the package are entered before the first gradient: distinct ones, comprehensions and lambdas
  among them. The fit has run before, so that what runs when a module is imported does not count;
- the greatest depth of calls inside the package;
- the pairs of files that call each other both ways.

A pair counts if each of the two files imports the other, at any place, and calls one of its functions in the fit. A
callback, an overridden method or a decorated function does not make a pair: the file that calls it knows nothing of the
other one. A class and its helper may be a pair, if the helper's file has the class's name: ``a.py`` and ``_a.py``.

The exit code is 1 if a goal is not met. ``--list`` names the deepest calls, and all functions in their order.
"""

import argparse
import ast
import contextlib
import io
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import torch

import onepos

PACKAGE = str(Path(onepos.__file__).parent) + "/"
_SMALL = {"max_epochs": 2}
_IS_FUNCTION = 0x2  # CO_NEWLOCALS: bodies of modules and classes run at import and have none


@dataclass
class Trace:
    """What a traced run has entered so far."""

    functions: list[str] = field(default_factory=list)
    before_gradient: int | None = None
    deepest: list[str] = field(default_factory=list)
    calls: set[tuple[str, str]] = field(default_factory=set)

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; a function for ``sys.setprofile``."""
        if event != "call" or not _is_ours(frame):
            return
        file, above = _file(frame), frame.f_back
        if above is not None and _is_ours(above) and _file(above) != file:
            self.calls.add((_file(above), file))
        name = f"{file} {frame.f_code.co_qualname}"
        if name not in self.functions:
            self.functions.append(name)
        stack, caller = [name], above
        while caller is not None:
            if _is_ours(caller):
                stack.append(f"{_file(caller)} {caller.f_code.co_qualname}")
            caller = caller.f_back
        if len(stack) > len(self.deepest):
            self.deepest = stack[::-1]

    def note_gradient(self) -> None:
        """Note how many functions were entered before the first gradient."""
        if self.before_gradient is None:
            self.before_gradient = len(self.functions)

    def pairs(self) -> list[str]:
        """Return the pairs of files that call, and import, each other."""
        both = {tuple(sorted(call)) for call in self.calls if call[::-1] in self.calls}
        return [f"{a} and {b}" for a, b in sorted(both) if _imports(a, b) and _imports(b, a) and not _helps(a, b)]


def _is_ours(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & _IS_FUNCTION) and frame.f_code.co_filename.startswith(PACKAGE)


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(PACKAGE)


def _imports(file: str, other: str) -> bool:
    """Whether a file names the module of another one in an import."""
    module = ".".join(["onepos", *Path(other).with_suffix("").parts]).removesuffix(".__init__")
    for node in ast.walk(ast.parse(Path(PACKAGE, file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if module == node.module or module in {f"{node.module}.{name.name}" for name in node.names}:
                return True
        elif isinstance(node, ast.Import) and module in {name.name for name in node.names}:
            return True
    return False


def _helps(file: str, other: str) -> bool:
    """Whether one of two files is named as the other's helper."""
    return Path(file).parent == Path(other).parent and Path(file).stem.strip("_") == Path(other).stem.strip("_")


def trace(run: Callable[[], None]) -> Trace:
    """Run twice and return the path of the second time."""
    run()
    path, grad = Trace(), torch.autograd.grad

    def noting(*arguments: Any, **options: Any) -> Any:
        path.note_gradient()
        return grad(*arguments, **options)

    torch.autograd.grad = noting
    threading.setprofile(path.enter)
    sys.setprofile(path.enter)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        torch.autograd.grad = grad
    return path


def fit_classifier() -> None:
    """Train SMILE on a small matrix."""
    random = np.random.default_rng(0)
    features = random.normal(size=(120, 5))
    observed = np.eye(4, dtype=int)[random.integers(0, 4, 120)]
    onepos.SMILEClassifier(**_SMALL, random_state=0).fit(features, observed)


def fit_table() -> None:
    """Train SMILE from the command line on a small table of numbers, words, dates, units and texts."""
    from onepos.cli import main

    random, n_rows = np.random.default_rng(0), 120
    table = pd.DataFrame(random.normal(size=(n_rows, 3)), columns=list("abc"))
    table["kind"] = random.choice(["red", "green", "blue"], n_rows)
    table["taken"] = pd.date_range("2024-01-01", periods=n_rows).strftime("%d.%m.%Y")
    table["length"] = [f"{minutes} min" for minutes in random.integers(60, 120, n_rows)]
    words = ["sun", "sea", "sand", "road", "tower", "lamp", "moon", "star"]
    table["caption"] = [" ".join(random.choice(words, 6)) for _ in range(n_rows)]
    table["tag"] = random.choice(["beach", "city", "night"], n_rows)
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "table.csv", Path(folder) / "model.onepos"
        table.to_csv(data, index=False)
        command = ["fit", str(data), "--label", "tag", "--method", "smile", "--out", str(out)]
        settings = [part for name, value in _SMALL.items() for part in ("--set", f"{name}={value}")]
        silent = io.StringIO()
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            try:
                main([*command, *settings])
            except SystemExit as ended:
                if ended.code:
                    raise RuntimeError(silent.getvalue()) from ended


#: Title, run, most functions before the first gradient, greatest depth.
RUNS: dict[str, tuple[str, Callable[[], None], int, int]] = {
    "fit": ("SMILEClassifier().fit", fit_classifier, 110, 13),
    "table": ("onepos fit table.csv --label tag --method smile", fit_table, 300, 20),
}


def main() -> None:
    """Print the numbers of both runs, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the functions")
    parser.add_argument("--only", choices=RUNS, help="trace one run, in this process")
    arguments = parser.parse_args()
    if arguments.only is None:
        more = ["--list"] if arguments.list else []
        sys.exit(
            max(
                subprocess.run([sys.executable, __file__, "--only", key, *more], check=False).returncode for key in RUNS
            )
        )
    title, run, most, deepest = RUNS[arguments.only]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the small data are no good ones
        path = trace(run)
    count, pairs = path.before_gradient or 0, path.pairs()
    depth = len(path.deepest)
    print(f"{title}: {count} functions before the first gradient (goal: {most}), depth {depth} (goal: {deepest})")
    print("".join(f"  call each other: {pair}\n" for pair in pairs), end="")
    if arguments.list:
        print("".join(f"  {'·' * level} {name}\n" for level, name in enumerate(path.deepest, 1)), end="")
        print("".join(f"  {number} {name}\n" for number, name in enumerate(path.functions, 1)), end="")
    sys.exit(count > most or depth > deepest or bool(pairs))


if __name__ == "__main__":
    main()

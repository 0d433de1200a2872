"""Count the files of the package that run when a model is trained: ``python benchmarks/files_touched.py``.

A file is touched if one of its functions is called; importing it does not count. Prints the number for
``SMILEClassifier().fit`` and for ``onepos fit table.csv --label tag --method smile``; ``--list`` names the files.
"""

import argparse
import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import onepos

PACKAGE = str(Path(onepos.__file__).parent)
_SMALL = {"max_epochs": 2}


@contextmanager
def touched() -> Iterator[set[str]]:
    """Yield the set of files of which a function was called in the body."""
    files: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # Bodies of modules and classes run at import: only functions have fast locals.
        if event == "call" and code.co_flags & 0x2 and code.co_filename.startswith(PACKAGE):
            files.add(str(Path(code.co_filename).relative_to(PACKAGE)))

    sys.setprofile(look)
    threading.setprofile(look)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def fit_classifier() -> None:
    """Train SMILE on a small matrix."""
    random = np.random.default_rng(0)
    features = random.normal(size=(120, 5))
    observed = np.eye(4, dtype=int)[random.integers(0, 4, 120)]
    onepos.SMILEClassifier(**_SMALL, random_state=0).fit(features, observed)


def fit_table() -> None:
    """Train SMILE from the command line on a small table."""
    from onepos.cli import main

    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(120, 5)), columns=list("abcde"))
    table["tag"] = random.choice(["beach", "city", "night"], 120)
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


def main() -> None:
    """Print both numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files")
    arguments = parser.parse_args()
    runs: tuple[tuple[str, Callable[[], None], int], ...] = (
        ("SMILEClassifier().fit", fit_classifier, 25),
        ("onepos fit table.csv --label tag --method smile", fit_table, 45),
    )
    for title, run, most in runs:
        with touched() as files:
            run()
        print(f"{title}: {len(files)} files (goal: at most {most})")
        if arguments.list:
            print("".join(f"  {name}\n" for name in sorted(files)), end="")


if __name__ == "__main__":
    main()

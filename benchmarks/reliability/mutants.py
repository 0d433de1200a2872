"""How many wrong changes of losses, measures and risks the tests notice: `python benchmarks/reliability/mutants.py`.

Each mutant of a module is imported in a forked process, in place of the module, and that module's own tests run on it
until one fails. A mutant that ends in a failure, an error or no answer after a minute of work is killed; one that
passes all survives. Verdicts are kept in ``.mutants`` under a hash of source and tests, so a run that was stopped goes
on. The counts and the survivors go to ``mutants.json`` beside this file.
"""

import argparse
import hashlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mutation_operators import mutants

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("mutants.json")
VERDICTS = ROOT / ".mutants"
SECONDS = 60
_NUMERICS = "tests/reliability/test_numerics.py"

#: Modules and the tests that are about them: of a few seconds, since an untouched module has to pass them all.
TARGETS: dict[str, tuple[str, ...]] = {
    "onepos.training.losses": ("tests/training/test_losses.py", _NUMERICS),
    "onepos.methods.smile.enhancement": ("tests/methods/smile/test_beta.py",),
    "onepos.methods.crisp": ("tests/methods/test_crisp.py::TestRisk", _NUMERICS),
    "onepos.methods.entropy_maximization": ("tests/methods/test_entropy_maximization.py", _NUMERICS),
    "onepos.methods.large_loss": ("tests/methods/test_large_loss.py", _NUMERICS),
    "onepos.methods.hill": ("tests/methods/test_robust_losses.py", _NUMERICS),
    "onepos.methods.role": ("tests/methods/test_role.py::TestLoss", _NUMERICS),
    "onepos.metrics": ("tests/metrics/test_metrics.py",),
    "risk_theory": ("tests/study/test_theory.py",),
}


def source_of(module: str) -> Path:
    """Return the file of a module of ``src`` or ``examples``."""
    path = ROOT / ("src" if module.startswith("onepos.") else "examples") / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class _InPlaceOf(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a text, everything else as usual."""

    def __init__(self, module: str, source: str) -> None:
        self.module, self.source = module, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        file = source_of(name)
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=folders)

    def exec_module(self, module: Any) -> None:
        exec(compile(self.source, str(source_of(self.module)), "exec"), module.__dict__)


def run_tests(module: str, source: str, tests: Sequence[str]) -> str:
    """Run tests on a module made of ``source`` in a forked process; return "passed", "failed" or "no answer"."""
    child = os.fork()
    if child == 0:
        _inside(module, source, tests)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "passed" if code == 0 else "no answer" if code == -signal.SIGXCPU else "failed"


def _inside(module: str, source: str, tests: Sequence[str]) -> None:
    """Run pytest in this process, and end it: 0 if all passed."""
    code = 3
    try:
        # Seconds of work: by the clock, a busy machine would take a slow test for a mutant that was noticed.
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.chdir(ROOT)
        sys.meta_path.insert(0, _InPlaceOf(module, source))
        import pytest

        with tempfile.TemporaryDirectory() as folder:
            # One mutant's counterexample is no help against the next.
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
            options = ["-x", "-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
            options += [f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "cov")]
            code = int(pytest.main([*options, "--basetemp", f"{folder}/t", *tests]))
    finally:
        os._exit(code)


def _import_what_is_never_mutated() -> None:
    """Load what the tests load, then forget our own part of it: a forked process has only that to import."""
    import hypothesis.extra.numpy
    import mpmath
    import scipy.stats
    import sklearn.utils.estimator_checks
    import torch

    import onepos.cli
    import onepos.datasets

    torch.set_num_threads(1)
    _ = hypothesis, mpmath, scipy, sklearn, [getattr(onepos, name) for name in onepos.__all__], onepos.cli.commands()
    for name in [name for name in sys.modules if name.partition(".")[0] == "onepos"]:
        del sys.modules[name]


def judge(module: str, tests: Sequence[str], jobs: int) -> dict[str, Any]:
    """Run all mutants of a module; return counts and survivors."""
    source = source_of(module).read_text(encoding="utf-8")
    about = "".join((ROOT / test.partition("::")[0]).read_text(encoding="utf-8") for test in tests)

    def fate(changed: str) -> str:
        key = hashlib.sha256(f"{module}\n{tests}\n{about}\n{changed}".encode()).hexdigest()
        verdict = VERDICTS / key[:32]
        if not verdict.exists():
            VERDICTS.mkdir(exist_ok=True)
            verdict.write_text(run_tests(module, changed, tests))
        return verdict.read_text()

    if fate(source) != "passed":
        raise RuntimeError(f"{module}: its own tests do not pass on it as it is, so they can judge no mutant: {tests}")
    found = list(mutants(source))
    with ThreadPoolExecutor(jobs) as pool:
        fates = list(pool.map(fate, [mutant.source for mutant in found]))
    lines = source.splitlines()
    survivors = [
        {"line": lines[mutant.line - 1].strip(), "change": mutant.change}
        for mutant, end in zip(found, fates, strict=True)
        if end == "passed"
    ]
    return {
        "mutants": len(found),
        "killed": len(found) - len(survivors),
        "no_answer": fates.count("no answer"),
        "survivors": survivors,
        "date": datetime.now(UTC).date().isoformat(),
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.85, help="share of mutants that must be killed")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    _import_what_is_never_mutated()
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for module in arguments.modules:
        stored[module] = judge(module, TARGETS[module], arguments.jobs)
        counts = stored[module]
        print(f"{module:36} {counts['killed']:4} of {counts['mutants']:4} killed", flush=True)
        for survivor in counts["survivors"]:
            print(f"    {survivor['change']:28} {survivor['line']}", flush=True)
        RESULTS.write_text(json.dumps({name: stored[name] for name in TARGETS if name in stored}, indent=1) + "\n")
    killed = sum(stored[module]["killed"] for module in arguments.modules)
    total = sum(stored[module]["mutants"] for module in arguments.modules)
    print(f"{killed} of {total} mutants killed ({killed / total:.1%})")
    if killed < arguments.least * total:
        sys.exit(1)


if __name__ == "__main__":
    main()

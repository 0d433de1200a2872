"""Damaged files for every reader: `python benchmarks/reliability/fuzz.py --cases 10000`.

Each format is read in a process of its own, whose address space may grow by one gigabyte and no further, and in which a
file that takes more than five seconds of work, or a minute of waiting, ends the process (forged models: 500 MB and two
seconds). Only the library's own errors, with a message, may come out. Whatever else happens is a defect; its file is
kept under ``--keep``.
"""

import argparse
import faulthandler
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from formats import Format, all_formats
from mutations import mutate

# Seconds of work, since others may use the machine too; seconds by the clock for a reader that waits for something.
SECONDS, PATIENCE = 5.0, 60.0


def make_case(form: Format, seed: int, number: int) -> bytes:
    """Return the damaged file of this number; every hundredth one is the seed itself."""
    return name_case(form, seed, number)[1]


def name_case(form: Format, seed: int, number: int) -> tuple[str, bytes]:
    """Return what is changed in the file of this number, as far as the format tells, and the file."""
    rng = random.Random(f"{seed} {form.file_name} {number}")
    if form.make is not None:
        return form.make(rng)
    chosen = form.seeds[number % len(form.seeds)] if number % 100 == 0 else rng.choice(form.seeds)
    if number % 100 == 0:
        return "nothing", chosen.wrap(chosen.content)
    return "", chosen.wrap(mutate(chosen.content, rng, [other.content for other in form.seeds]))


def read_case(form: Format, path: Path) -> str | None:
    """Read a file; return None if it was accepted, else the refusal's message. Anything undocumented comes out."""
    from onepos.exceptions import OneposError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            form.read(path)
    except OneposError as error:
        if not str(error):
            raise AssertionError(f"{type(error).__name__} without a message") from error
        return str(error)
    return None


def run_inside(name: str, seed: int, first: int, last: int, folder: Path) -> None:
    """Read the cases in this process and print, line by line, what was found; for ``run_format``."""
    form = all_formats()[name]()
    for other, content in form.beside:
        (folder / other).write_bytes(content)
    path = folder / form.file_name
    for number, plain in enumerate(form.seeds):  # lazy imports, and that every seed is a case worth damaging
        path.write_bytes(plain.wrap(plain.content))
        refusal = read_case(form, path)
        if refusal is not None and number == 0:
            raise AssertionError(f"a seed of {name} is refused: {refusal}")
    _limit_memory(form.memory)
    faulthandler.register(signal.SIGPROF, chain=True)  # says where it was, and leaves the end to the signal
    start, seconds = _peak(), min(SECONDS, form.seconds)
    for number in range(first, last):
        counts: dict[str, Any] = {"accepted": 0, "refused": 0}
        changed, content = name_case(form, seed, number)
        path.write_bytes(content)
        _say(case=number, changed=changed, seconds=seconds)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        began = time.process_time()
        try:
            refusal = read_case(form, path)
        except BaseException as error:  # the point of the exercise: nothing else may come out
            _say(defect=f"{type(error).__name__}: {error}"[:300], number=number)
        else:
            counts["accepted" if refusal is None else "refused"] += 1
        counts["worst_seconds"] = time.process_time() - began
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        _say(counts=counts | {"peak_megabytes": (_peak() - start) / 1024})


def run_format(name: str, cases: int, *, seed: int = 0, keep: Path | None = None) -> dict[str, Any]:
    """Fuzz one format in processes of its own, a new one after each crash or hang; return the counts."""
    total: dict[str, Any] = {"cases": 0, "accepted": 0, "refused": 0, "worst_seconds": 0.0, "peak_megabytes": 0.0}
    defects: list[dict[str, Any]] = []
    first = 0
    models = tempfile.TemporaryDirectory()  # trained once for all processes
    while first < cases:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--inside", name, folder, str(first), str(cases), "--seed", str(seed)]
            # One thread: two that wait for each other on a busy machine would count as work.
            environment = os.environ | {"ONEPOS_FORGED_SEEDS": models.name, "OMP_NUM_THREADS": "1"}
            ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        case, changed, seconds = None, "", SECONDS
        for line in ended.stdout.splitlines():
            message = json.loads(line)
            case, changed = message.get("case", case), message.get("changed", changed)
            seconds = message.get("seconds", seconds)
            if "defect" in message:
                defects.append({"number": message["number"], "what": message["defect"], "changed": changed})
            for key, value in message.get("counts", {}).items():
                if key in ("worst_seconds", "peak_megabytes"):
                    total[key] = max(total[key], value)
                else:
                    total[key] += value
        if ended.returncode == 0:
            break
        if case is None:
            raise RuntimeError(f"{name}: the process ended before the first case:\n{ended.stderr[-3000:]}")
        if ended.returncode == -signal.SIGPROF:
            what = f"no answer after {seconds:g} s of work"
        elif "Timeout" in ended.stderr:
            what = f"no answer within {PATIENCE:g} s"
        else:
            what = f"the process died ({ended.returncode})"
        defects.append({"number": case, "what": f"{what}: {ended.stderr[-600:]}", "changed": changed})
        first = case + 1
    models.cleanup()
    total["cases"] = cases
    if keep is not None and defects:
        form = all_formats()[name]()
        keep.mkdir(parents=True, exist_ok=True)
        for defect in defects:
            (keep / f"{defect['number']}-{form.file_name}").write_bytes(make_case(form, seed, defect["number"]))
    return total | {"defects": defects}


def _say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit_memory(extra: int) -> None:
    """Let the address space grow by so many bytes from what the libraries have taken by now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="damaged files a format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="*", default=list(all_formats()), choices=list(all_formats()))
    parser.add_argument("--keep", type=Path, help="folder for the files that showed a defect")
    parser.add_argument("--inside", nargs=4, metavar=("FORMAT", "FOLDER", "FIRST", "LAST"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        name, folder, first, last = arguments.inside
        run_inside(name, arguments.seed, int(first), int(last), Path(folder))
        return
    defects = 0
    for name in arguments.formats:
        counts = run_format(name, arguments.cases, seed=arguments.seed, keep=arguments.keep)
        print(
            f"{name:10} {counts['cases']:6} cases  {counts['accepted']:6} accepted  {counts['refused']:6} refused  "
            f"worst {counts['worst_seconds']:.2f} s  +{counts['peak_megabytes']:.0f} MB  "
            f"{len(counts['defects'])} defects",
            flush=True,
        )
        for defect in counts["defects"][:20]:
            print(f"    case {defect['number']} ({defect['changed']}): {defect['what']}")
        defects += len(counts["defects"])
    sys.exit(defects > 0)


if __name__ == "__main__":
    main()

"""``onepos bench run | status | table | compare | report | export | studies``."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from onepos.cli.output import InputError, JsonOption, input_errors, print_json, print_line, show, table
from onepos.cli.signals import Terminated
from onepos.methods.registry import METHODS
from onepos.metrics import METRICS
from onepos.study import Observer, ResultsFolder, Study, load_results
from onepos.study.tables import compare, main_table, rank_table, selection_table, significance

if TYPE_CHECKING:
    import pandas as pd


app = typer.Typer(help="Studies: run an evaluation, resume it, make its tables, figures and report.")

Results = Annotated[Path, typer.Argument(help="A results folder, or a parquet file of results.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", help="The results folder; made if it is not there.")]
Names = Annotated[str, typer.Option(help="Comma-separated names; all when not given.", show_default=False)]
Rule = Annotated[str, typer.Option("--selection", help="clean or single-positive: what chose epochs and settings.")]
Format = Annotated[str, typer.Option("--format", help="terminal, markdown, latex or csv.")]


@app.command("studies")
def studies(json: JsonOption = False) -> None:
    """List the studies that come with onepos."""
    from onepos.study import cells_of, parse_study, shipped_studies

    made = {name: parse_study(text) for name, text in shipped_studies().items()}
    if json:
        print_json([{"name": n, "description": s.description, "cells": len(cells_of(s))} for n, s in made.items()])
        return
    shown = table("name", "cells", "what", numbers=("cells",))
    for name, study in made.items():
        shown.add_row(name, f"{len(cells_of(study)):,}", study.description)
    show(shown)


@app.command("run")
def run(
    study: Annotated[str, typer.Argument(help="A shipped study or a TOML file.", show_default=False)],
    out: Out,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes side by side; 0 is one a core.")] = 0,
    backend: Annotated[
        str, typer.Option("--backend", help="local: processes of this machine. dask: workers of a cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option("--address", help="The cluster, as in tcp://host:8786; not given: one on this machine."),
    ] = None,
    datasets: Names = "",
    methods: Names = "",
    reuse: Annotated[
        Path | None,
        typer.Option("--reuse", help="Results (folder or file) whose cells are not run again."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run what is missing of a study. Stop it whenever you like; the same command goes on."""
    with input_errors():
        from onepos.study import ResultsFolder, load_results, read_study, run_study

        plan, text = read_study(study)
        chosen = (_chosen(datasets, plan.datasets, "data set"), _chosen(methods, _methods(plan), "method"))

    try:
        with study_view(ResultsFolder(out)) as observer, input_errors():
            done, failed = run_study(
                plan,
                text,
                ResultsFolder(out),
                jobs=jobs or None,
                backend=backend,
                address=address,
                datasets=chosen[0],
                methods=chosen[1],
                reuse=load_results(reuse) if reuse else None,
                observer=observer,
            )
    except (KeyboardInterrupt, Terminated):
        sys.stderr.write(f"stopped: the cells that are done are in {out}; the same command goes on with the rest.\n")
        raise
    if json:
        print_json({"done": done, "failed": failed, "out": str(out)})
    elif failed:
        print_line(f"{failed} cells failed: `onepos bench status {out}` says why; the same command tries them again.")
    else:
        print_line(f"done: {done} cells in {out}. Next: onepos bench report {out}")
    if failed:
        raise typer.Exit(1)


@app.command("status")
def status(results: Results, json: JsonOption = False) -> None:
    """Show how far a study is, what is running and what failed."""
    with input_errors():
        from onepos.study import ResultsFolder, cells_of, load_results

        frame = load_results(results)
        folder = ResultsFolder(results) if results.is_dir() else None
        total = len(cells_of(folder.study())) if folder else len(frame)
    ok = frame[frame["status"] == "ok"] if len(frame) else frame
    failed = frame[frame["status"] == "failed"] if len(frame) else frame
    running = folder.running() if folder else []
    if json:
        failures = failed[["cell", "error"]].to_dict("records") if len(failed) else []
        print_json({"done": len(ok), "total": total, "failed": failures, "running": running})
        return
    seconds = float(ok["seconds"].sum()) if len(ok) else 0.0
    print_line(f"{len(ok)} of {total} cells done, {len(failed)} failed, {seconds / 3600:.2f} hours of computing.")
    for note in running:
        print_line(f"running: {note['cell']}")
    for row in failed.to_dict("records"):
        print_line(f"failed: {row['cell']}: {row['error']}")
    if len(ok):
        show(_counts(ok))


@app.command("table")
def table_(
    results: Results,
    metric: Annotated[str, typer.Option(help="One of the five metrics.")] = "average_precision",
    kind: Annotated[str, typer.Option(help="main, ranks, significance or selection (both rules).")] = "main",
    method: Annotated[str, typer.Option(help="Whose wins and losses `significance` counts.")] = "smile",
    selection: Rule = "clean",
    form: Format = "terminal",
    json: JsonOption = False,
) -> None:
    """Show mean ± standard deviation, average ranks, significance tests, or both selection rules side by side."""
    with input_errors():
        made = make_table(results, kind, metric, method, selection)
        _print_table(made, form, json)


@app.command("compare")
def compare_(
    results: Results,
    metric: Annotated[str, typer.Option(help="One of the five metrics; all when not given.", show_default=False)] = "",
    selection: Rule = "clean",
    form: Format = "terminal",
    json: JsonOption = False,
) -> None:
    """Set the results beside the published ones, in units of the standard deviation; other features are flagged."""
    with input_errors():
        _print_table(make_comparison(results, metric, selection), form, json)


def _print_table(made: Any, form: str, json: bool) -> None:
    from rich.console import Console

    from onepos.study.tables import render, to_rich

    if json:
        print_json(made.frame().to_dict("records"))
    elif form == "terminal":
        show(to_rich(made, names=names(), width=Console().width))
    else:
        print_line(render(made, form, names=names()))


@app.command("report")
def report(
    results: Results,
    out: Annotated[
        Path | None, typer.Option("--out", help="The HTML file; report.html in the folder when not given.")
    ] = None,
    figures: Annotated[Path | None, typer.Option("--figures", help="A folder for every figure as SVG and PNG.")] = None,
    json: JsonOption = False,
) -> None:
    """Write one HTML page with tables, figures and every cell; it needs no network."""
    with input_errors():
        from onepos.study.report import report_study

        page = report_study(results, out, figures)
    if json:
        print_json({"report": str(page)})
    else:
        print_line(f"Report: {page}")


@app.command("export")
def export(
    results: Results,
    out: Annotated[Path, typer.Option("--out", help="The parquet file to write.")],
    json: JsonOption = False,
) -> None:
    """Write all rows of a results folder into one parquet file."""
    with input_errors():
        from onepos.study import ResultsFolder
        from onepos.study.folder import export_results

        frame = export_results(ResultsFolder.open(results), out)
    if json:
        print_json({"rows": len(frame), "out": str(out)})
    else:
        print_line(f"{len(frame)} rows in {out}")


def _counts(ok: "pd.DataFrame") -> Any:
    counts = ok.groupby(["dataset", "method"], sort=False).size().unstack(fill_value=0)
    shown = table("data set", *map(str, counts.columns), numbers=tuple(map(str, counts.columns)))
    for name, row in counts.iterrows():
        shown.add_row(str(name), *(str(value) for value in row))
    return shown


def _methods(study: Any) -> tuple[str, ...]:
    return tuple(method.name for method in study.methods)


def _chosen(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise InputError(f"the study has no {what} {name!r}; it has: {', '.join(known)}.")
    return names


# Which table a command asks for.


KINDS = ("main", "ranks", "significance", "selection")


def names() -> dict[str, str]:
    """Return what the methods are called in tables."""
    return {key: method.name for key, method in METHODS.items()}


def make_table(results: Path, kind: str, metric: str, method: str, selection: str) -> Any:
    """Return the table of a results folder or file."""
    if kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    frame = full_size(load_results(results))
    if kind == "main":
        return main_table(frame, metric, selection=selection)
    if kind == "ranks":
        return rank_table(frame, selection=selection)
    if kind == "selection":
        return selection_table(frame, metric)
    return significance(frame, method=method, selection=selection)


def make_comparison(results: Path, metric: str, selection: str) -> Any:
    """Return ours beside published."""
    return compare(
        full_size(load_results(results)), metrics=(metric,) if metric else tuple(METRICS), selection=selection
    )


def full_size(frame: Any) -> Any:
    """Leave out the rows of studies with fewer training rows: tables are about whole training sets."""
    return frame[frame["train_fraction"] == 1.0] if "train_fraction" in frame else frame


# What a running study shows: a live view on a terminal, a line a cell elsewhere; on standard error.


_LAST = 8


@contextmanager
def study_view(folder: ResultsFolder) -> Iterator[Observer]:
    """Yield the observer that suits standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    view = LiveView(folder)
    with Live(view, console=console, refresh_per_second=2):
        yield view


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)  # the clock may have been set back
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Clock:
    """Time left, from the cells finished in this run: they are the only ones whose pace is known."""

    def __init__(self, finished: int, total: int) -> None:
        self.started, self.before, self.total = time.monotonic(), finished, total

    def left(self, finished: int) -> str:
        """Return the time left in words, or a question mark before the first cell."""
        here = finished - self.before
        if not here:
            return "?"
        return _duration((time.monotonic() - self.started) / here * (self.total - finished))


class Lines(Observer):
    """A line a cell, for logs."""

    def on_begin(self, study: Study, done: int, failed: int, total: int) -> None:
        """Say what is there already."""
        self.clock = Clock(done, total)
        again = f", {failed} failed before and are tried again" if failed else ""
        self._say(f"study {study.name} ({study.content_hash}): {done} of {total} cells done{again}")

    def on_cell(self, row: dict[str, Any], done: int, failed: int, total: int) -> None:
        """Say how a cell went."""
        place = f"[{done + failed}/{total}, {self.clock.left(done + failed)} left]"
        self._say(f"{place} {outcome(row)}")

    def on_worker_died(self, cells: list[str]) -> None:
        """Say which cells were under way."""
        self._say(f"a worker process was killed; under way: {', '.join(cells) or 'unknown'}; starting it again")

    def on_notice(self, text: str) -> None:
        """Say it."""
        self._say(text)

    @staticmethod
    def _say(text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def outcome(row: dict[str, Any]) -> str:
    """One line about a finished cell."""
    name = f"{row['dataset']} {row['method']} {row['selection']} trial {row['trial']}"
    if row["status"] != "ok":
        return f"{name}: FAILED {row['error']}"
    return f"{name}: average precision {row['average_precision']:.4f}, {row['seconds']:.1f} s"


class LiveView(Observer):
    """Counts, a bar, time left, what is running and the last few cells, repainted in place."""

    def __init__(self, folder: ResultsFolder) -> None:
        self.folder = folder
        self.last: list[Text] = []
        self.name, self.counts, self.clock = "", (0, 0, 0), Clock(0, 0)

    def on_begin(self, study: Study, done: int, failed: int, total: int) -> None:
        """Show what is there already; what failed before is to do again."""
        self.name, self.counts, self.clock = study.name, (done, 0, total), Clock(done, total)

    def on_cell(self, row: dict[str, Any], done: int, failed: int, total: int) -> None:
        """Add a line and move the bar."""
        self.counts = (done, failed, total)
        self._add(outcome(row), "" if row["status"] == "ok" else "red")

    def on_worker_died(self, cells: list[str]) -> None:
        """Add a line in yellow."""
        self._add(f"a worker was killed; under way: {', '.join(cells) or 'unknown'}", "yellow")

    def on_notice(self, text: str) -> None:
        """Add a line in yellow."""
        self._add(text, "yellow")

    def _add(self, text: str, style: str) -> None:
        self.last = [*self.last, Text(text, style=style, overflow="ellipsis", no_wrap=True)][-_LAST:]

    def __rich__(self) -> Group:
        done, failed, total = self.counts
        left = self.clock.left(done + failed)
        running = [
            Text(f"running {_duration(time.time() - note['started'])}  {note['cell']}", style="cyan", no_wrap=True)
            for note in self.folder.running()
        ]
        head = f"{self.name}: {done} done, {len(running)} running, {failed} failed, of {total}; {left} left"
        # Padded, because a bar alone does not end its line.
        bar = Padding(ProgressBar(total=max(total, 1), completed=done + failed, width=60), 0)
        return Group(Text(head), bar, *self.last, *running)

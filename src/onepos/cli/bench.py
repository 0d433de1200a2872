"""``onepos bench run | status | table | compare | report | export | studies``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepos.cli import Terminated
from onepos.cli.options import names
from onepos.cli.output import InputError, JsonOption, input_errors, print_json, print_line, show, table

if TYPE_CHECKING:
    import pandas as pd


KINDS = ("main", "ranks", "significance", "selection")

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
        # Imported in the functions: a study needs torch, and `onepos --help` must not wait for it.
        from onepos.cli.study_view import study_view
        from onepos.study import ResultsFolder, load_results, read_study, run_study

        plan, text = read_study(study)
        keys = tuple(method.name for method in plan.methods)
        chosen = (_chosen(datasets, plan.datasets, "data set"), _chosen(methods, keys, "method"))

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
        if kind not in KINDS:
            raise InputError(f"--kind must be one of {', '.join(KINDS)}; got {kind!r}.")
        from onepos.study import tables

        frame = _full_size(results)
        if kind == "main":
            made: Any = tables.main_table(frame, metric, selection=selection)
        elif kind == "ranks":
            made = tables.rank_table(frame, selection=selection)
        elif kind == "selection":
            made = tables.selection_table(frame, metric)
        else:
            made = tables.significance(frame, method=method, selection=selection)
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
        from onepos.metrics import METRICS
        from onepos.study.tables import compare

        metrics = (metric,) if metric else tuple(METRICS)
        _print_table(compare(_full_size(results), metrics=metrics, selection=selection), form, json)


def _full_size(results: Path) -> "pd.DataFrame":
    """Return the results of studies on whole training sets: tables are about those."""
    from onepos.study import load_results

    frame = load_results(results)
    return frame[frame["train_fraction"] == 1.0] if "train_fraction" in frame else frame


def _print_table(made: Any, form: str, json: bool) -> None:
    from rich.console import Console

    from onepos.methods.registry import METHODS
    from onepos.study.tables import render, to_rich

    titles = {key: method.name for key, method in METHODS.items()}
    if json:
        print_json(made.frame().to_dict("records"))
    elif form == "terminal":
        show(to_rich(made, names=titles, width=Console().width))
    else:
        print_line(render(made, form, names=titles))


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


def _chosen(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    for name in names(text):
        if name not in known:
            raise InputError(f"the study has no {what} {name!r}; it has: {', '.join(known)}.")
    return tuple(names(text))

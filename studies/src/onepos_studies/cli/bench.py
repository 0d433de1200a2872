"""``onepos bench run | status | verify | table | compare | report | export | studies``."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from onepos.cli import Terminated
from onepos.cli.options import names
from onepos.cli.output import InputError, JsonOption, answer, input_errors, print_json, print_line, show_table

if TYPE_CHECKING:
    import pandas as pd

    from onepos_studies.study.tables import Grid

app = typer.Typer(help="Studies: run an evaluation, resume it, make its tables, figures and report.")

Results = Annotated[Path, typer.Argument(help="A results folder, or a parquet file of results.", show_default=False)]
Out = Annotated[Path, typer.Option(help="Results folder; created if needed.")]
Names = Annotated[str, typer.Option(help="Comma-separated names (default: all).", show_default=False)]
Rule = Annotated[
    str,
    typer.Option(
        help="Validation labels that chose epochs and settings: clean (if the study has it) or single-positive."
    ),
]
Format = Annotated[str, typer.Option("--format", help="terminal, markdown, latex or csv.")]


@app.command("studies")
def studies(json: JsonOption = False) -> None:
    """List the studies that come with onepos."""
    from onepos_studies.study import cells_of, parse_study, shipped_studies

    made = {name: parse_study(text) for name, text in shipped_studies().items()}
    if json:
        print_json([{"name": n, "description": s.description, "cells": len(cells_of(s))} for n, s in made.items()])
        return
    rows = [(name, f"{len(cells_of(study)):,}", study.description) for name, study in made.items()]
    show_table(("name", "cells", "what"), rows, ("cells",))


@app.command("run")
def run(
    study: Annotated[str, typer.Argument(help="A shipped study or a TOML file.", show_default=False)],
    out: Out,
    jobs: Annotated[int, typer.Option(min=0, help="Number of parallel processes; 0 is one per core.")] = 0,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers run the cells: tcp://host:8786.")
    ] = None,
    datasets: Names = "",
    methods: Names = "",
    reuse: Annotated[Path | None, typer.Option(help="Results (folder or file) to take finished cells from.")] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Also run cells again whose rows belong to another revision.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run the missing cells of a study. You can stop it at any time; the same command continues."""
    with input_errors():
        # Imported in the functions: a study needs torch, and `onepos --help` must not wait for it.
        from onepos_studies.study import ResultsFolder, load_results, read_study, run_study

        plan, text = read_study(study)
        wanted = {
            "datasets": _chosen(datasets, plan.datasets, "data set"),
            "methods": _chosen(methods, tuple(method.name for method in plan.methods), "method"),
        }
    try:
        with input_errors():
            done, failed = run_study(
                plan,
                text,
                ResultsFolder(out),
                jobs=jobs or None,
                cluster=cluster,
                **wanted,
                reuse=load_results(reuse) if reuse else None,
                recompute=recompute,
                log=partial(typer.echo, err=True),
            )
    except (KeyboardInterrupt, Terminated):
        sys.stderr.write(f"stopped: finished cells are in {out}; the same command runs the rest.\n")
        raise
    good = f"done: {done} cells in {out}. Next: onepos bench report {out}"
    bad = f"{failed} cells failed: `onepos bench status {out}` shows the errors; the same command tries them again."
    answer(json, {"done": done, "failed": failed, "out": str(out)}, bad if failed else good)
    if failed:
        raise typer.Exit(1)


@app.command("status")
def status(results: Results, json: JsonOption = False) -> None:
    """Show the progress of a study, the running cells and the failed cells."""
    with input_errors():
        from onepos_studies.study import ResultsFolder, load_results
        from onepos_studies.study.provenance import is_current

        frame = load_results(results)
        folder = ResultsFolder(results) if results.is_dir() else None
        total = len(folder.planned()["cells"]) if folder else len(frame)
        other = int((~is_current(frame)).sum())
    ok = frame[frame["status"] == "ok"] if len(frame) else frame
    failed = frame[frame["status"] == "failed"] if len(frame) else frame
    running = folder.running() if folder else []
    if json:
        failures = failed[["cell", "error"]].to_dict("records") if len(failed) else []
        print_json(
            {"done": len(ok), "total": total, "failed": failures, "running": running, "rows_of_other_revisions": other}
        )
        return
    seconds = float(ok["seconds"].sum()) if len(ok) else 0.0
    print_line(f"{len(ok)} of {total} cells done, {len(failed)} failed, {seconds / 3600:.2f} hours of computing.")
    if other:
        print_line(f"{other} rows belong to other revisions: `onepos bench run … --recompute` runs their cells again.")
    for note in running:
        print_line(f"running: {note['cell']}")
    for row in failed.to_dict("records"):
        print_line(f"failed: {row['cell']}: {row['error']}")
    if len(ok):
        counts = ok.groupby(["dataset", "method"], sort=False).size().unstack(fill_value=0)
        methods = tuple(map(str, counts.columns))
        rows = [(str(name), *map(str, line)) for name, line in counts.iterrows()]
        show_table(("data set", *methods), rows, methods)


@app.command("verify")
def verify(
    results: Annotated[list[Path], typer.Argument(help="Results folders or parquet files.", show_default=False)],
    cells: Annotated[int, typer.Option(min=1, help="Number of cells to run again.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random sample.")] = 0,
    seconds: Annotated[float, typer.Option(help="Leave out cells that took more seconds than this.")] = 60.0,
    json: JsonOption = False,
) -> None:
    """Run a sample of finished cells again, spread over methods and data sets, and compare their metrics.

    Rows of other revisions are only counted.
    """
    with input_errors():
        import pandas as pd

        from onepos_studies.study import ResultsFolder, cells_of, load_results, read_study
        from onepos_studies.study.provenance import is_current
        from onepos_studies.study.repetition import repeat_rows, sample

        frame = pd.concat([load_results(one) for one in results], ignore_index=True)
        if not len(frame):
            raise InputError(f"{results[0]} has no rows to run again: `onepos bench run` makes them.")
        own = [ResultsFolder(one).study() for one in results if one.is_dir()]
        names = set(frame["study"]) - {study.name for study in own}
        plans = {study.name: cells_of(study) for study in [*own, *(read_study(name)[0] for name in sorted(names))]}
        rows = sample(frame, cells, seed=seed, most_seconds=seconds)
        found = repeat_rows(rows, plans)
        other = int((~is_current(frame)).sum())
    wrong = [one for one in found if not one.holds]
    if json:
        print_json({"repeated": len(found), "wrong": [one.cell for one in wrong], "rows_of_other_revisions": other})
    else:
        for one in wrong:
            print_line(f"not repeated: {one}")
        print_line(f"{len(found) - len(wrong)} of {len(found)} cells repeated; {other} rows are of other revisions.")
    if wrong:
        raise typer.Exit(1)


@app.command("table")
def table_(
    results: Results,
    metric: Annotated[str, typer.Option(help="One of the five metrics.")] = "average_precision",
    kind: Annotated[str, typer.Option(help="main, ranks, significance or selection (both rules).")] = "main",
    method: Annotated[
        str, typer.Option(help="Method whose wins and losses `significance` counts (default: smile, or the first).")
    ] = "",
    selection: Rule = "",
    form: Format = "terminal",
    json: JsonOption = False,
) -> None:
    """Show mean ± standard deviation, average ranks, significance tests, or both selection rules side by side."""
    with input_errors():
        from onepos_studies.study import tables

        frame = _full_size(results)
        selection, methods = _selection(frame, selection), list(dict.fromkeys(frame["method"]))
        method = method or ("smile" if "smile" in methods else methods[0])
        kinds: dict[str, Callable[[pd.DataFrame], Grid]] = {
            "main": lambda frame: tables.main_table(frame, metric, selection=selection).grid(),
            "ranks": lambda frame: tables.rank_table(frame, selection=selection),
            "significance": lambda frame: tables.significance(frame, method=method, selection=selection),
            "selection": lambda frame: tables.selection_table(frame, metric),
        }
        if kind not in kinds:
            raise InputError(f"--kind must be one of {', '.join(kinds)}; got {kind!r}.")
        _print_table(kinds[kind](frame), form, json)


@app.command("compare")
def compare_(
    results: Results,
    metric: Annotated[str, typer.Option(help="One of the five metrics (default: all).", show_default=False)] = "",
    selection: Rule = "",
    form: Format = "terminal",
    json: JsonOption = False,
) -> None:
    """Compare the results with the published ones, in units of the standard deviation. Other features are flagged."""
    with input_errors():
        from onepos.metrics import METRICS
        from onepos_studies.study.tables import compare

        metrics, frame = (metric,) if metric else tuple(METRICS), _full_size(results)
        made = compare(frame, metrics=metrics, selection=_selection(frame, selection))
        if not made.rows and not json:
            print_line(
                "There is nothing published to compare with: the paper has values of its own methods on its own data "
                "sets only. Use `onepos bench table`."
            )
        else:
            _print_table(made, form, json)


def _selection(frame: "pd.DataFrame", given: str) -> str:
    """Return the rule that was named, else `clean` if the results have it, else theirs."""
    if not len(frame):
        raise InputError("there are no finished cells: `onepos bench run` makes them.")
    rules = list(dict.fromkeys(frame["selection"]))
    return given or ("clean" if "clean" in rules else rules[0])


def _full_size(results: Path) -> "pd.DataFrame":
    """Return the results on whole training sets, which tables are about."""
    from onepos_studies.study import load_results

    frame = load_results(results)
    return frame[frame["train_fraction"] == 1.0] if "train_fraction" in frame else frame


def _print_table(made: "Grid", form: str, json: bool) -> None:
    from onepos.methods.registry import installed_methods
    from onepos_studies.study.tables import render

    if json:
        print_json(made.data.to_dict("records"))
        return
    titles = {key: method.name for key, method in installed_methods().items()}
    print_line(render(made, form, names=titles, width=get_terminal_size().columns))


@app.command("report")
def report(
    results: Results,
    out: Annotated[Path | None, typer.Option(help="HTML file to write (default: report.html in the folder).")] = None,
    figures: Annotated[Path | None, typer.Option(help="Folder to write every figure to, as SVG and PNG.")] = None,
    json: JsonOption = False,
) -> None:
    """Write one HTML page with the main tables and the figures; it needs no network."""
    with input_errors():
        from onepos_studies.study.report import report_study

        page = report_study(results, out, figures)
    answer(json, {"report": str(page)}, f"Report: {page}")


@app.command("export")
def export(
    results: Results,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    json: JsonOption = False,
) -> None:
    """Write all rows of a results folder into one parquet file."""
    with input_errors():
        from onepos_studies.study import ResultsFolder
        from onepos_studies.study.folder import export_results

        frame = export_results(ResultsFolder.open(results), out)
    answer(json, {"rows": len(frame), "out": str(out)}, f"{len(frame)} rows in {out}")


def _chosen(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    for name in names(text):
        if name not in known:
            raise InputError(f"the study has no {what} {name!r}; it has: {', '.join(known)}.")
    return tuple(names(text))

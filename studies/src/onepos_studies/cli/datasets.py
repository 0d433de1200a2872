"""``onepos datasets list | info | fetch | verify | convert``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from onepos.cli.output import InputError, JsonOption, input_errors, print_json, print_line, show_table

app = typer.Typer(help="The data sets of the paper: list, describe, download, check.")

Name = Annotated[str, typer.Argument(help="A name from `onepos datasets list`.", show_default=False)]
Names = Annotated[list[str], typer.Argument(help="Names from `onepos datasets list`.", show_default=False)]


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """List the data sets and whether their files are here."""
    from onepos_studies.datasets import list_datasets

    frame = list_datasets()
    if json:
        print_json(frame.to_dict("records"))
        return
    numbers = ("rows", "features", "labels", "labels/row")
    rows = []
    for row in frame.to_dict("records"):
        sizes = [f"{row[size]:,}" for size in ("instances", "features", "labels")]
        facts = ["yes" if row[fact] else "no" for fact in ("matches_paper", "available")]
        rows.append((row["name"], *sizes, f"{row['cardinality']:.2f}", *facts))
    show_table(("name", *numbers, "as in the paper", "here"), rows, numbers)


@app.command()
def info(name: Name, json: JsonOption = False) -> None:
    """Describe a data set: size, files, sources, citation."""
    from onepos_studies.datasets import dataset_info

    with input_errors():
        facts = dataset_info(name)
    if json:
        print_json(facts)
        return
    for fact, value in facts.items():
        if fact not in ("files", "options", "supplied") and value not in ("", None):
            _print_fact(fact.replace("_", " "), value)
    for file in facts["files"]:
        _print_fact("file", f"{file['file']} ({file['bytes']:,} bytes)")
        for url in file["urls"]:
            _print_fact("", url)
    if facts["supplied"]:
        _print_fact("your file", " or ".join(facts["supplied"]))


@app.command()
def fetch(
    names: Names,
    force: Annotated[bool, typer.Option("--force", help="Download again what is already here.")] = False,
    json: JsonOption = False,
) -> None:
    """Download data sets into the cache folder and check their sha256."""
    from onepos_studies import datasets

    fetched: dict[str, list[str]] = {}
    for name in _known(names):
        fetched[name] = [str(path) for path in datasets.fetch_dataset(name, progress=True, force=force)]
        if not json:
            for path in fetched[name]:
                print_line(f"{name}  {path}")
    if json:
        print_json(fetched)


@app.command()
def verify(names: Names, json: JsonOption = False) -> None:
    """Recompute the facts of data sets and compare them with the registry."""
    from onepos_studies import datasets

    frames = {name: datasets.verify_dataset(name, progress=True) for name in _known(names)}
    if json:
        print_json({name: frame.to_dict("index") for name, frame in frames.items()})
    else:
        numbers = ("expected", "found")
        rows = []
        for name, frame in frames.items():
            for fact, row in frame.iterrows():
                values = ["unknown" if row[key] != row[key] else f"{row[key]:,.10g}" for key in numbers]
                rows.append((name, str(fact), *values, "ok" if row["ok"] else "WRONG"))
        show_table(("data set", "fact", *numbers, ""), rows, numbers)
    wrong = [name for name, frame in frames.items() if not frame["ok"].all()]
    if wrong:
        raise InputError(f"{', '.join(wrong)}: not what the registry describes.")


@app.command()
def convert(
    data: Annotated[Path, typer.Argument(help="Mulan ARFF + XML, MAT or npz.", show_default=False)],
    out: Annotated[Path, typer.Argument(help=".csv, .tsv or .parquet.", show_default=False)],
    label: Annotated[str, typer.Option(help="Name of the column of tags, joined by a semicolon.")] = "tags",
    json: JsonOption = False,
) -> None:
    """Write a benchmark file as a table that `onepos fit` reads: the features, and one column of tags."""
    import numpy as np
    import pandas as pd

    from onepos._utils.validation import to_dense
    from onepos.table.writing import TableWriter
    from onepos_studies.datasets import read

    with input_errors():
        table = read(data)
        if label in table.feature_names:
            raise InputError(f"{data.name} has a feature {label!r}: name the column of tags with --label.")
        frame = pd.DataFrame(to_dense(table.X), columns=list(table.feature_names))
        names = np.array(table.label_names, dtype=object)
        frame[label] = [";".join(names[row > 0]) for row in table.Y]
        with TableWriter(out) as writer:
            writer.write(frame)
    if json:
        print_json({"rows": len(frame), "out": str(out)})
    else:
        print_line(f"{len(frame):,} rows in {out}: onepos fit {out} --label {label} --separator ';'")


def _known(names: list[str]) -> list[str]:
    """Return the registry's spelling of all names, before anything is downloaded for the first of them."""
    from onepos_studies.datasets import dataset_info

    with input_errors():
        return [str(dataset_info(name)["name"]) for name in names]


def _print_fact(fact: str, value: Any) -> None:
    # Not in a table: it would break addresses that someone wants to copy.
    print_line(f"{fact:<20}{value}")

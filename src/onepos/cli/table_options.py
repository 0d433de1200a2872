"""The options that the commands on tables share, and how their text becomes values."""

import json
from ast import literal_eval
from pathlib import Path
from typing import Annotated, Any

import typer

from onepos.cli.output import InputError

DEFAULT_METHOD = "auto"
#: What stands between the tags of a set, unless --separator says otherwise.
BETWEEN_TAGS = ";"

Data = Annotated[
    Path,
    typer.Argument(help="CSV, TSV, parquet, Mulan ARFF + XML, MAT, npz or svmlight.", show_default=False),
]
Model = Annotated[Path, typer.Argument(help="A model from `onepos fit`.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help=".csv, .tsv or .parquet.", show_default=False)]
Label = Annotated[
    str, typer.Option("--label", metavar="COL", help="Column with one tag per row; may be empty.", show_default=False)
]
Labels = Annotated[
    str, typer.Option("--labels", metavar="COL,…", help="Instead: the 0/1 columns, one per label.", show_default=False)
]
Text = Annotated[str, typer.Option("--text", metavar="COL,…", help="Columns whose words are used.", show_default=False)]
Id = Annotated[
    str, typer.Option("--id", metavar="COL", help="Column that names the rows, else numbers do.", show_default=False)
]
Drop = Annotated[str, typer.Option("--drop", metavar="COL,…", help="Columns to leave out.", show_default=False)]
Categories = Annotated[
    str,
    typer.Option("--categories", metavar="COL,…", help="Number columns that are categories.", show_default=False),
]


def _methods(incomplete: str) -> list[str]:
    """Complete a method's key in the shell."""
    from onepos.methods.registry import METHODS

    return [key for key in METHODS if key.startswith(incomplete)]


Method = Annotated[
    str,
    typer.Option(
        "--method", help="A key from `onepos methods`; auto tries several and combines them.", autocompletion=_methods
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; repeatable.", show_default=False),
]
Positives = Annotated[
    float | None,
    typer.Option("--n-positives", metavar="M", help="Mean number of labels per row, if known.", show_default=False),
]
Fraction = Annotated[
    float | None,
    typer.Option(
        "--validation-fraction",
        metavar="F",
        help="Share of rows held out to score the model; else 0.1, with auto 0.",
        show_default=False,
    ),
]
Decisions = Annotated[
    Path | None,
    typer.Option("--decisions", metavar="CSV", help="Reviewed labels: id,label,decision.", show_default=False),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", min=0, help="Equal seeds give equal results; auto's also need the time for them."
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="P",
        min=0.0,
        max=1.0,
        help="A label is in the set from this probability on; else the model's own, ½ without --n-positives.",
        show_default=False,
    ),
]
Sample = Annotated[
    Path | None,
    typer.Option(
        "--sample",
        metavar="FILE",
        help="Rows with all their tags, to calibrate the probabilities on; sets are then cut at ½.",
        show_default=False,
    ),
]
SampleLabel = Annotated[
    str,
    typer.Option(
        "--sample-label", metavar="COL", help="Column of all tags in it, joined; else as --label.", show_default=False
    ),
]
Tune = Annotated[bool, typer.Option("--tune", help="Search the method's settings by held-out tags first.")]
Trials = Annotated[
    int | None,
    typer.Option("--trials", metavar="N", min=1, help="Settings to try with --tune; else 20.", show_default=False),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        help="Time for auto (else 60), or for --tune with its last training.",
        show_default=False,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Keep the run there after each epoch; the same command goes on with it.",
        show_default=False,
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache", metavar="DIR", help="With a folder of shards: where features lie meanwhile.", show_default=False
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="HTML", help="Also write a page about the model.", show_default=False),
]
Top = Annotated[
    int | None, typer.Option("--top", metavar="K", min=1, help="Sets of the K best instead.", show_default=False)
]
Separator = Annotated[
    str,
    typer.Option(
        "--separator",
        metavar="SIGN",
        help="Between the tags of a cell; else cells of --label hold one tag, and sets are written with ;.",
        show_default=False,
    ),
]
AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help="Leave sets empty if no label is likely.")]


def check_limits(threshold: float | None, top: int | None) -> None:
    """Raise if two rules are given for what belongs in a set."""
    if threshold is not None and top is not None:
        raise InputError("--threshold and --top each say what belongs in a set: leave one of them out.")


def names(text: str) -> list[str]:
    """Return the names of a comma-separated option.

    Examples
    --------
    >>> names("a, b,")
    ['a', 'b']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def settings(pairs: list[str] | None) -> dict[str, Any]:
    """Return the method's settings from ``name=value`` options.

    Examples
    --------
    >>> settings(["max_epochs=5", "network=[64, 32]", "scale=minmax", "patience=none"])
    {'max_epochs': 5, 'network': [64, 32], 'scale': 'minmax', 'patience': None}
    """
    made: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--set takes name=value, for example max_epochs=10; got {pair!r}.")
        made[name.strip()] = _value(value.strip())
    return made


def _value(text: str) -> Any:
    if text.lower() in ("true", "false", "none", "null"):
        return json.loads(text.lower().replace("none", "null"))
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text

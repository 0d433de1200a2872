"""The options of the commands on tables, each declared once, and how their text becomes values."""

import functools
import inspect
import json
from ast import literal_eval
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from onepos.cli.output import InputError

#: What stands between the tags of a set, unless --separator says otherwise.
BETWEEN_TAGS = ";"


def option(name: str, metavar: str | None, text: str, **more: Any) -> Any:
    """Return a typer option whose default goes without saying."""
    return typer.Option(name, metavar=metavar, help=text, show_default=False, **more)


def _methods(incomplete: str) -> list[str]:
    """Complete a method's key in the shell."""
    from onepos.methods.registry import METHODS

    return [key for key in METHODS if key.startswith(incomplete)]


Data = Annotated[
    Path, typer.Argument(help="CSV, TSV, parquet, Mulan ARFF + XML, MAT, npz or svmlight.", show_default=False)
]
Model = Annotated[Path, typer.Argument(help="A model from `onepos fit`.", show_default=False)]
Out = Annotated[Path, option("--out", "FILE", ".csv, .tsv or .parquet.")]
Label = Annotated[str, option("--label", "COL", "Column with one tag per row; may be empty.")]
Text = Annotated[str, option("--text", "COL,…", "Columns whose words are used.")]
Id = Annotated[str, option("--id", "COL", "Column that names the rows, else numbers do.")]
Drop = Annotated[str, option("--drop", "COL,…", "Columns to leave out.")]
Separator = Annotated[
    str,
    option("--separator", "SIGN", "Between the tags of a cell; else a --label cell holds one tag, sets use ;."),
]
AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help="Leave sets empty if no label is likely.")]
Threshold = Annotated[
    float | None,
    option(
        "--threshold",
        "P",
        "Put a label into the set from this probability on; else from the model's own.",
        min=0.0,
        max=1.0,
    ),
]
Top = Annotated[int | None, option("--top", "K", "Write sets of the K best labels instead.", min=1)]
Report = Annotated[Path | None, option("--report", "HTML", "Also write a page about the model.")]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options of a command that trains on a table, as they were typed."""

    data: Data
    label: Label = ""
    labels: Annotated[str, option("--labels", "COL,…", "Instead: the 0/1 columns, one per label.")] = ""
    text: Text = ""
    id: Id = ""
    drop: Drop = ""
    categories: Annotated[str, option("--categories", "COL,…", "Number columns that are categories.")] = ""
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="A key from `onepos methods`; auto tries several and combines them.",
            autocompletion=_methods,
        ),
    ] = "auto"
    settings: Annotated[list[str] | None, option("--set", "NAME=VALUE", "A setting of the method; repeatable.")] = None
    n_positives: Annotated[float | None, option("--n-positives", "M", "Mean number of labels per row.")] = None
    allow_empty: AllowEmpty = False
    validation_fraction: Annotated[
        float | None,
        option("--validation-fraction", "F", "Share of rows held out to score the model; else 0.1, with auto 0."),
    ] = None
    decisions: Annotated[Path | None, option("--decisions", "CSV", "Reviewed labels: id,label,decision.")] = None
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", min=0, help="Equal seeds give equal results, auto's if time suffices."),
    ] = 0
    tune: Annotated[bool, typer.Option("--tune", help="First search the method's settings by held-out tags.")] = False
    trials: Annotated[int | None, option("--trials", "N", "Settings to try with --tune; else 20.", min=1)] = None
    budget: Annotated[
        float | None, option("--budget", "SECONDS", "Time for auto (else 60), or for --tune with its last training.")
    ] = None
    sample: Annotated[
        Path | None, option("--sample", "FILE", "Rows with all their tags, to calibrate the probabilities on.")
    ] = None
    sample_label: Annotated[
        str, option("--sample-label", "COL", "Column of all tags in it, joined; else as --label.")
    ] = ""
    separator: Separator = ""
    checkpoint: Annotated[
        Path | None, option("--checkpoint", "DIR", "Save the run there after each epoch; the same command resumes it.")
    ] = None
    cache: Annotated[
        Path | None, option("--cache", "DIR", "With a folder of shards: where features lie meanwhile.")
    ] = None


def expanded(command: Callable[..., None], without: Collection[str] = ()) -> Callable[..., None]:
    """Return a command with an option for each field of ``TrainingOptions`` in place of its parameter ``options``.

    The fields of ``without`` are no options of this command; they have their defaults.
    """
    hints = get_type_hints(TrainingOptions, include_extras=True)
    used = [field for field in fields(TrainingOptions) if field.name not in without]
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in used
    ]
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own if each.name != "options"]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        command(TrainingOptions(**{field.name: values.pop(field.name) for field in used}), **values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


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

"""The options of the commands on tables, each declared once, and how their text becomes values."""

import functools
import inspect
import json
from ast import literal_eval
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from onepos.cli.output import InputError

#: Sign between the tags of a set without --separator.
BETWEEN_TAGS = ";"


def option(name: str, metavar: str | None, text: str, **more: Any) -> Any:
    """Return a typer option that does not show its default."""
    return typer.Option(name, metavar=metavar, help=text, show_default=False, **more)


def _methods(incomplete: str) -> list[str]:
    """Complete a method's key in the shell."""
    from onepos.methods.registry import installed_methods

    return [key for key in installed_methods() if key.startswith(incomplete)]


Data = Annotated[
    Path, typer.Argument(help="CSV, TSV, parquet, Mulan ARFF + XML, MAT, npz or svmlight.", show_default=False)
]
Model = Annotated[Path, typer.Argument(help="A model from `onepos fit`.", show_default=False)]
Out = Annotated[Path, option("--out", "FILE", ".csv, .tsv or .parquet.")]
Label = Annotated[str, option("--label", "COL", "Column holding one tag per row; cells may be blank.")]
Text = Annotated[str, option("--text", "COL,…", "Text columns; use their words.")]
Id = Annotated[str, option("--id", "COL", "Column that identifies a row (default: row number).")]
Drop = Annotated[str, option("--drop", "COL,…", "Columns to leave out.")]
Separator = Annotated[
    str,
    option("--separator", "SIGN", "Sign between the tags of a cell (default: a cell is one tag)."),
]
Image = Annotated[str, option("--image", "COL", "Column of picture files, relative to the table's folder.")]
Embed = Annotated[
    list[str] | None,
    option(
        "--embed",
        "MODEL",
        "Embed text with this sentence-transformers model, pictures with timm:MODEL (name or path); repeatable.",
    ),
]
AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help="Leave a set empty if no label reaches the threshold.")]
EscapeFormulas = Annotated[
    bool,
    typer.Option(
        "--escape-formulas/--no-escape-formulas",
        help="Put an apostrophe before texts of CSV and TSV files that a spreadsheet would compute.",
        rich_help_panel="Spreadsheets",  # of its own: the long name would narrow the other help texts
    ),
]
Threshold = Annotated[
    float | None,
    option(
        "--threshold",
        "P",
        "Probability from which a label is in the set (default: the model's thresholds).",
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
    labels: Annotated[str, option("--labels", "COL,…", "Use these 0/1 columns, one per label, instead of --label.")] = (
        ""
    )
    text: Text = ""
    image: Image = ""
    embed: Embed = None
    id: Id = ""
    drop: Drop = ""
    categories: Annotated[str, option("--categories", "COL,…", "Treat these number columns as categories.")] = ""
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="Key from `onepos methods`; auto combines several.",
            autocompletion=_methods,
        ),
    ] = "auto"
    settings: Annotated[
        list[str] | None, option("--set", "NAME=VALUE", "Set a parameter of the method; repeatable.")
    ] = None
    n_positives: Annotated[float | None, option("--n-positives", "M", "Mean number of labels per row.")] = None
    allow_empty: AllowEmpty = False
    validation_fraction: Annotated[
        float | None,
        option("--validation-fraction", "F", "Share of rows to hold out for scoring (default: 0.1; 0 with auto)."),
    ] = None
    decisions: Annotated[
        Path | None, option("--decisions", "CSV", "Learn from reviewed labels (id,label,decision).")
    ] = None
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", min=0, help="Random seed; equal seeds give equal results (auto: if time suffices)."
        ),
    ] = 0
    tune: Annotated[bool, typer.Option("--tune", help="Search the method's settings on held-out tags first.")] = False
    trials: Annotated[int | None, option("--trials", "N", "Settings to try with --tune (default: 20).", min=1)] = None
    budget: Annotated[
        float | None,
        option("--budget", "SECONDS", "Time limit of auto (default: 60), or of --tune including the final training."),
    ] = None
    sample: Annotated[
        Path | None, option("--sample", "FILE", "Calibrate probabilities on these rows, which have all their tags.")
    ] = None
    sample_label: Annotated[
        str, option("--sample-label", "COL", "Column of --sample that holds all tags (default: as --label).")
    ] = ""
    separator: Separator = ""
    checkpoint: Annotated[
        Path | None, option("--checkpoint", "DIR", "Save the run here after each epoch; the same command resumes it.")
    ] = None
    cache: Annotated[
        Path | None, option("--cache", "DIR", "Folder for temporary features, if the data is a folder of shards.")
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


def add(app: typer.Typer, command: Callable[..., None], examples: Sequence[str] = ()) -> None:
    """Add a command under its name; the lines of its help are joined, as they were cut to the source's width."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    help_text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    epilog = "\n\n".join(["[bold]Examples[/bold]", *(f"  {line}" for line in examples)]) if examples else None
    app.command(command.__name__, help=help_text, epilog=epilog)(command)


def open_model(path: Path, data: Path, embed: list[str] | None, image: str = "") -> Any:
    """Load a model of tables for the rows of a file, with the embedders of this machine."""
    from onepos.table import TableModel

    loaded = TableModel.load(path, embed=embed or None, image_folder=data.parent)
    if image and loaded.image != image:
        raise InputError(f"the model was trained with --image {loaded.image or 'left out'}; got {image}. Leave it out.")
    return loaded


def check_limits(threshold: float | None, top: int | None) -> None:
    """Raise if two rules are given for what belongs in a set."""
    if threshold is not None and top is not None:
        raise InputError("--threshold and --top each say what belongs in a set: leave one of them out.")


def names(text: str) -> list[str]:
    """Return the names of a comma-separated option."""
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

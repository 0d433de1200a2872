"""The options of the commands on tables, each declared once, and how their text becomes values."""

import inspect
import shlex
from ast import literal_eval
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepos.cli.output import InputError

if TYPE_CHECKING:
    from onepos.table import TableModel


def option(metavar: str, text: str, **more: Any) -> Any:
    """Return a typer option that does not show its default; typer names it after the parameter."""
    return typer.Option(metavar=metavar, help=text, show_default=False, **more)


def flag(name: str, text: str, **more: Any) -> Any:
    """Return a typer option without a value."""
    return typer.Option(name, help=text, **more)


_DATA = "CSV, TSV, parquet, JSON lines or Excel; or a folder of such files."
Data = Annotated[Path, typer.Argument(help=_DATA, show_default=False)]
Sheet = Annotated[str | None, option("NAME", "Sheet of an Excel file (default: the first).")]
Model = Annotated[Path, typer.Argument(help="A model from `onepos fit`.", show_default=False)]
Out = Annotated[Path, option("FILE", ".csv, .tsv or .parquet.")]
Label = Annotated[str | None, option("COL", "Column holding one tag per row; cells may be blank.")]
Text = Annotated[str | None, option("COL,…", "Text columns; use their words.")]
Id = Annotated[str | None, option("COL", "Column that identifies a row (default: row number).")]
Drop = Annotated[str | None, option("COL,…", "Columns to leave out.")]
Separator = Annotated[str | None, option("SIGN", "Sign between the tags of a cell (default: a cell is one tag).")]
Image = Annotated[str | None, option("COL", "Column of picture files in the table's folder; embed them.")]
_EMBED = (
    "Embed text: small, good or a sentence-transformers model; pictures: an .onnx file; or module:Class. Repeatable."
)
Embed = Annotated[list[str] | None, option("MODEL", _EMBED)]
AllowEmpty = Annotated[bool, flag("--allow-empty", "Leave a set empty if no label reaches the threshold.")]
EscapeFormulas = Annotated[
    bool,
    flag(
        "--escape-formulas/--no-escape-formulas",
        "Put an apostrophe before texts of CSV and TSV files that a spreadsheet would compute.",
        rich_help_panel="Spreadsheets",  # of its own: the long name would narrow the other help texts
    ),
]
_THRESHOLD = "Probability from which a label is in the set (default: the model's thresholds)."
Threshold = Annotated[float | None, option("P", _THRESHOLD, min=0.0, max=1.0)]
Precision = Annotated[float | None, option("P", "Promise that this share of the suggested tags is right.")]
Recall = Annotated[float | None, option("R", "Promise that this share of the true tags is suggested.")]
_TOP = "Write sets of the K best labels instead (default with more than 200 labels: 20)."
Top = Annotated[int | None, option("K", _TOP, min=1)]
Verbose = Annotated[bool, flag("--verbose", "Also print every column, the members of auto, likelihoods.")]
Report = Annotated[Path | None, option("HTML", "Also write a page about the model.")]
_SEED = "Random seed; equal seeds give equal results (auto: if time suffices)."
_METHOD = typer.Option(help="Key from `onepos methods`; auto combines several.")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options of a command that trains on a table, as they were typed."""

    data: Data
    label: Label = None
    labels: Annotated[str | None, option("COL,…", "Use these 0/1 columns, one per label, instead of --label.")] = None
    text: Text = None
    image: Image = None
    embed: Embed = None
    id: Id = None
    group: Annotated[
        str | None, option("COL", "Column that names the thing a row describes; tags of its rows are joined.")
    ] = None
    drop: Drop = None
    categories: Annotated[str | None, option("COL,…", "Treat these number columns as categories.")] = None
    method: Annotated[str, _METHOD] = "auto"
    set: Annotated[list[str] | None, option("NAME=VALUE", "Set a parameter of the method; repeatable.")] = None
    n_positives: Annotated[float | None, option("M", "Mean number of labels per row.")] = None
    allow_empty: AllowEmpty = False
    validation_fraction: Annotated[
        float | None, option("F", "Share of rows to hold out for scoring (default: 0.1; 0 with auto).")
    ] = None
    decisions: Annotated[Path | None, option("CSV", "Learn from reviewed labels (id,label,decision).")] = None
    scores: Annotated[
        str | None, option("PREFIX", "Columns PREFIX(label) hold scores of another model; auto weighs them.")
    ] = None
    seed: Annotated[int, typer.Option(metavar="N", min=0, help=_SEED)] = 0
    budget: Annotated[float | None, option("SECONDS", "Time limit (default: 60 for auto, else none).")] = None
    sample: Annotated[
        Path | None, option("FILE", "Calibrate probabilities on these rows, which have all their tags.")
    ] = None
    sample_label: Annotated[
        str | None, option("COL", "Column of --sample that holds all tags (default: as --label).")
    ] = None
    precision: Precision = None
    recall: Recall = None
    separator: Separator = None
    force: Annotated[bool, flag("--force", "Train although `onepos doctor` calls the labels an error.")] = False
    checkpoint: Annotated[
        Path | None, option("DIR", "Save the run here after each epoch; the same command resumes it.")
    ] = None
    sheet: Sheet = None

    def command_line(self, command: str, **more: Path) -> str:
        """Return a command with these options, as it can be pasted; ``more`` are further ones."""
        words = ["onepos", command, str(self.data)]
        given = {one.name: (getattr(self, one.name), one.default) for one in fields(self) if one.name != "data"}
        for name, (value, default) in {**given, **{name: (value, None) for name, value in more.items()}}.items():
            if value == default:
                continue
            flag_name = f"--{name.replace('_', '-')}"
            for one in value if isinstance(value, list) else [value]:
                words += [flag_name] if one is True else [flag_name, str(one)]
        return shlex.join(words)

    def model(self) -> "TableModel":
        """Return the untrained model that the options describe."""
        from onepos.table import TableModel

        params = settings(self.set)
        if self.budget is not None and self.method == "auto":
            params = {"time_budget": self.budget} | params
        return TableModel(
            method=self.method,
            params=params,
            text=names(self.text),
            categories=names(self.categories),
            drop=names(self.drop),
            image=self.image,
            embed=self.embed or None,
            image_folder=self.data.parent,
            scores=self.scores,
            id=self.id,
            group=self.group,
            separator=self.separator,
            n_positives=self.n_positives,
            at_least_one=not self.allow_empty,
            validation_fraction=self.validation_fraction,
            random_state=self.seed,
        )


def training_command(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: its parameter ``**training`` becomes an option for each field of ``TrainingOptions``."""

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        fields = [one for one in inspect.signature(TrainingOptions).parameters.values() if one.name not in without]
        own = [one for one in inspect.signature(command).parameters.values() if one.kind is not one.VAR_KEYWORD]
        parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in (*fields, *own)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return declare


def add(app: typer.Typer, command: Callable[..., None], examples: Sequence[str] = ()) -> None:
    """Add a command under its name; the lines of its help are joined, as they were cut to the source's width."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    help_text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    epilog = "\n\n".join(["[bold]Examples[/bold]", *(f"  {line}" for line in examples)]) if examples else None
    app.command(command.__name__.replace("_", "-"), help=help_text, epilog=epilog)(command)


def open_model(path: Path, data: Path, embed: list[str] | None) -> "TableModel":
    """Load a model of tables for the rows of a file, with the embedders of this machine."""
    from onepos.table import TableModel
    from onepos.table.formats import READABLE

    if path.suffix.lower() in READABLE and not data.is_dir() and data.suffix.lower() not in READABLE:
        raise InputError(f"the model comes first, then the table; {path.name} looks like a table: swap the two.")
    return TableModel.load(path, embed=embed or None, image_folder=data.parent)


@contextmanager
def workers(data: Path) -> Iterator[None]:
    """Give the files of a folder to as many processes as there are processors; a file needs none."""
    from joblib import cpu_count, parallel_config

    if not data.is_dir():
        yield
        return
    with parallel_config("loky", n_jobs=cpu_count()):
        yield


def check_limits(threshold: float | None, top: int | None) -> None:
    """Raise if two rules are given for what belongs in a set."""
    if threshold is not None and top is not None:
        raise InputError("--threshold and --top each say what belongs in a set: leave one of them out.")


def names(text: str | None) -> list[str]:
    """Return the names of a comma-separated option."""
    return list(filter(None, map(str.strip, (text or "").split(","))))


def settings(pairs: list[str] | None) -> dict[str, Any]:
    """Return the method's settings from ``name=value`` options."""
    words = {"true": True, "false": False, "none": None, "null": None}
    values: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, value = map(str.strip, pair.partition("="))
        if not sign or not name:
            raise InputError(f"--set takes name=value, for example max_epochs=10; got {pair!r}.")
        try:
            values[name] = words[value.lower()] if value.lower() in words else literal_eval(value)
        except (ValueError, SyntaxError):
            values[name] = value  # a text
    return values

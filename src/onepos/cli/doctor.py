"""``onepos doctor`` and ``onepos methods``."""

from typing import TYPE_CHECKING, Any

from onepos.cli import options
from onepos.cli.output import InputError, JsonOption, input_errors, print_json, print_line, progress_steps, show, table

if TYPE_CHECKING:
    from onepos.table import TableData


EXAMPLES = ("onepos doctor photos.csv --label tag --text caption --id id",)


def doctor(
    data: options.Data,
    label: options.Label = "",
    text: options.Text = "",
    id: options.Id = "",
    drop: options.Drop = "",
    separator: options.Separator = "",
    json: JsonOption = False,
) -> None:
    """Look at a table before training on it: what is wrong, what may hurt, what is worth knowing.

    The exit code is 0 whatever is found. With --json, `worst` is the most serious level.
    """
    with progress_steps() as progress, input_errors():
        progress("reading", 0.0)
        from onepos.doctor import diagnose
        from onepos.table import read_table
        from onepos.table.kinds import require_columns

        words = options.names(text)
        content = read_table(data, plain=[label, id, *words])
        for what, names in (("label", [label]), ("id", [id]), ("text", words), ("drop", options.names(drop))):
            require_columns(content.frame, [name for name in names if name], what)
        tags = _tags(content, label, separator)
        left_out = [name for name in (label, id, *options.names(drop)) if name]
        progress("looking", 0.3)
        diagnosis = diagnose(content.frame.drop(columns=left_out), tags, text=words, interface="command line")
    if json:
        print_json(diagnosis.to_dict())
    else:
        print_line(diagnosis.to_text().rstrip("\n"))


def _tags(content: "TableData", label: str, separator: str) -> Any:
    if label:
        from onepos.table.tags import split_tags

        return split_tags(content.frame[label], separator) if separator else content.frame[label]
    if content.labels is None:
        raise InputError("name the column of tags: --label COL.")
    return content.labels


def methods(json: JsonOption = False) -> None:
    """List the methods: key, name, what each assumes and needs, where it comes from."""
    import pandas as pd

    from onepos.methods.registry import list_methods

    frame = list_methods()
    if json:
        print_json(frame.reset_index().to_dict("records"))
        return
    shown = table("key", "method")
    for key, row in frame.iterrows():
        source = row["paper"].partition(",")[0].removeprefix("none: ")
        year = "" if pd.isna(row["year"]) else f" {row['year']:.0f}"
        needs = "" if row["needs"] == "nothing" else f" Needs: {row['needs']}."
        shown.add_row(str(key), f"{row['name']} ({source}{year}). Assumes: {row['assumptions']}.{needs}")
    show(shown)

"""``onepos doctor`` and ``onepos methods``."""

from typing import Any

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options, output
from onepos.cli.output import InputError, JsonOption, print_json

EXAMPLES = ("onepos doctor photos.csv --label tag --text caption --id id",)


def doctor(
    data: options.Data,
    label: options.Label = None,
    text: options.Text = None,
    id: options.Id = None,
    drop: options.Drop = None,
    separator: options.Separator = None,
    sheet: options.Sheet = None,
    json: JsonOption = False,
) -> None:
    """Look at a table before training on it: what is wrong, what may hurt, what is worth knowing.

    The exit code is 0 whatever is found. With --json, `worst` is the most serious level.
    """
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "reading")
        from onepos._utils.validation import shorten
        from onepos.doctor import diagnose
        from onepos.table import read_table
        from onepos.table.files import SAMPLE_BYTES
        from onepos.table.kinds import require_columns
        from onepos.table.tags import holds_lists, split_tags

        words, left_out = options.names(text), options.names(drop)
        frame = read_table(data, plain=[*filter(None, (label, id)), *words], sheet=sheet, most_bytes=SAMPLE_BYTES).frame
        if label is None:
            raise InputError(f"name the column of tags: --label COL. {data.name} has: {shorten(frame.columns)}.")
        for what, columns in (("label", [label]), ("id", [id]), ("text", words), ("drop", left_out)):
            require_columns(frame, [name for name in columns if name is not None], what)
        tags: Any = frame[label]
        if separator or holds_lists(tags):
            tags = split_tags(tags, separator)
        tell(0.3, "looking")
        features = frame.drop(columns=[label, *left_out, *([] if id is None else [id])])
        ids = None if id is None else frame[id]
        diagnosis = diagnose(features, tags, text=words, ids=ids)
    if json:
        print_json(diagnosis.to_dict())
    else:
        output.print_line(diagnosis.to_text().rstrip("\n"))


def methods(json: JsonOption = False) -> None:
    """List the methods: key, name, what each assumes and needs, where it comes from."""
    import pandas as pd

    from onepos.methods.registry import list_methods

    frame = list_methods()
    if json:
        print_json(frame.reset_index().to_dict("records"))
        return
    rows = []
    for key, row in frame.iterrows():
        source = row["paper"].partition(",")[0].removeprefix("none: ")
        year = "" if pd.isna(row["year"]) else f" {row['year']:.0f}"
        needs = "" if row["needs"] == "nothing" else f" Needs: {row['needs']}."
        rows.append((str(key), f"{row['name']} ({source}{year}). Assumes: {row['assumptions']}.{needs}"))
    output.show_table(("key", "method"), rows)

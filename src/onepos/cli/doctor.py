"""``onepos doctor`` and ``onepos methods``."""

from typing import Any

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli import options, output
from onepos.cli.output import InputError, JsonOption, print_json

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
    with progress_shown(keep=False), output.input_errors():
        tell(0.0, "reading")
        from onepos.doctor import diagnose
        from onepos.table import read_table
        from onepos.table.kinds import require_columns
        from onepos.table.tags import holds_lists, split_tags

        words = options.names(text)
        content = read_table(data, plain=[label, id, *words])
        for what, names in (("label", [label]), ("id", [id]), ("text", words), ("drop", options.names(drop))):
            require_columns(content.frame, [name for name in names if name], what)
        if not label:
            raise InputError("name the column of tags: --label COL.")
        tags: Any = content.frame[label]
        if separator or holds_lists(tags):
            tags = split_tags(tags, separator)
        left_out = [name for name in (label, id, *options.names(drop)) if name]
        ids = content.frame[id] if id else None
        tell(0.3, "looking")
        features = content.frame.drop(columns=left_out)
        diagnosis = diagnose(features, tags, text=words, ids=ids, interface="command line")
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

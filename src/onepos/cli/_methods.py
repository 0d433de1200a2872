"""``onepos methods``."""

from onepos.cli._output import JsonOption, print_json, show, table


def methods(json: JsonOption = False) -> None:
    """List the methods: key, name, what each assumes and needs, where it comes from."""
    import pandas as pd

    from onepos.registry import list_methods

    frame = list_methods()
    if json:
        print_json(frame.reset_index().to_dict("records"))
        return
    shown = table("key", "name", "assumes", "needs", "from")
    for key, row in frame.iterrows():
        year = "" if pd.isna(row["year"]) else f" {row['year']:.0f}"
        shown.add_row(
            str(key), row["name"], row["assumptions"], row["needs"], f"{row['paper'].partition(',')[0]}{year}"
        )
    show(shown)

"""``onepos demo``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli.output import InputError, JsonOption, print_json, print_line, show_table

if TYPE_CHECKING:
    from onepos.pages.demo import DemoResult


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the table and the pages.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Equal seeds give equal results.")] = 0,
    json: JsonOption = False,
) -> None:
    """Complete the tags of a table with one tag per row and compare them with the hidden truth (under a minute)."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out names the folder for the files; {out} is a file.")
    with progress_shown(keep=False):
        tell(0.0, "loading")
        # Imported here: torch takes seconds, and `onepos --help` does not need it.
        from onepos.pages.demo import run_demo

        result = run_demo(out=out, random_state=seed)
    if not json:
        _show(result)
        return
    print_json(
        {
            "methods": result.scores.to_dict("index"),
            "doctor": result.diagnosis.to_dict(),
            "facts": dict(result.facts),
            "files": dict(result.files),
            "seconds": result.seconds,
        }
    )


def _show(result: "DemoResult") -> None:
    """Print the result for people."""
    facts, files = result.facts, result.files
    print_line(f"1. Table   {files['table']}: {facts['n_train']:,} pictures of handwritten digits.")
    print_line(f"           They show {facts['mean_labels']:.2f} digits on average. One of them is named per picture.")
    findings = ", ".join(f"{finding.level} {finding.code}" for finding in result.diagnosis.findings)
    print_line(f"2. Doctor  {findings or 'no finding'}")
    print_line(f"3. Fit     method {facts['method']} with a small convolutional network")
    print_line(f"4. Tags    {files['completed']}: {facts['hidden']:,} digits were hidden from training.\n")
    numbers = ("tags\nsuggested", "of these\ntrue", "hidden digits\nfound", "average precision\non new pictures")
    rows = []
    for key, row in result.scores.iterrows():
        name = f"{key} + network" if key == facts["method"] else str(key)
        shares = (f"{row['precision']:.0%}", f"{row['recall']:.0%}")
        rows.append((name, f"{row['suggested']:,.0f}", *shares, f"{row['average_precision']:.3f}"))
    show_table(("\nmethod", *numbers), rows, numbers)
    print_line(f"\n5. Review  {files['review']}")
    print_line(f"6. Report  {files['report']}")
    print_line(f"Time: {result.seconds:.0f} s")

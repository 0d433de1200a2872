"""``onepos demo``."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onepos._utils.context import tell
from onepos._utils.progress import progress_shown
from onepos.cli.output import InputError, JsonOption, print_json, print_line, show_table

if TYPE_CHECKING:
    from onepos.pages.demo import DemoResult

_SHOWN = 5


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the table and the pages.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the genre that each title keeps.")] = 0,
    json: JsonOption = False,
) -> None:
    """Suggest the missing genres of 1,500 films and series of which one genre each is known (under a minute)."""
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
            "rows": result.rows.to_dict("records"),
            "doctor": result.diagnosis.to_dict(),
            "facts": dict(result.facts),
            "files": dict(result.files),
            "seconds": result.seconds,
        }
    )


def _show(result: "DemoResult") -> None:
    """Print the result for people."""
    from onepos.pages.demo import ID, LABEL, METHOD, N_POSITIVES, PARAMS, TEXT, THRESHOLD

    facts, files = result.facts, {name: str(path) for name, path in result.files.items()}
    own = result.scores.loc[METHOD]
    print_line(f"Table: {facts['rows']:,} films and series. Each shows one of its {facts['mean_labels']:.2f} genres.\n")
    shown = result.rows[:_SHOWN]
    columns_of = (shown[name].tolist() for name in ("title", "given", "suggested", "true"))
    rows = [
        (title, given, _joined(set(suggested) - {given}), _joined(set(true) - {given}))
        for title, given, suggested, true in zip(*columns_of, strict=True)
    ]
    show_table(("title", "given genre", "suggested", "hidden until now"), rows)
    print_line(
        f"\n{facts['suggested']:,} genres suggested: {own['precision']:.0%} are true, and they are "
        f"{own['recall']:.0%} of the {facts['hidden']:,} hidden ones.\n"
        "As many suggestions by other methods, the most probable ones:\n"
    )
    shares = [(str(name), f"{row['precision']:.0%}", f"{row['recall']:.0%}") for name, row in result.scores.iterrows()]
    show_table(("method", "true", "hidden genres found"), shares, ("true", "hidden genres found"))
    errors = [finding.title for finding in result.diagnosis.findings if finding.level == "error"]
    print_line(f"\nDoctor: {'; '.join(errors) if errors else 'no errors'}. Review page: {files['review']}")
    print_line(f"Time: {result.seconds:.0f} s. The same by hand:\n")
    model = str(result.files["table"].with_name("titles.onepos"))
    params = [word for name, value in PARAMS.items() for word in ("--set", f"{name}={value}")]
    columns = ["--label", LABEL, "--text", ",".join(TEXT), "--id", ID]
    for command in (
        ["doctor", files["table"], *columns],
        ["fit", files["table"], *columns, "--n-positives", N_POSITIVES, *params, "--out", model],
        ["complete", files["table"], "--model", model, "--threshold", THRESHOLD, "--out", files["completed"],
         "--review", files["review"], "--title", "title"],
    ):  # fmt: skip
        print_line(f"onepos {shlex.join(map(str, command))}")


def _joined(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "–"

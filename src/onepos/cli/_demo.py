"""``onepos demo``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepos.cli._output import InputError, JsonOption, print_json, progress_steps

if TYPE_CHECKING:
    from onepos.demo import DemoResult


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for report.html.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Equal seeds give equal results.")] = 0,
    json: JsonOption = False,
) -> None:
    """Train on pictures with one label each, compare with full supervision, write report.html (under a minute)."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out names the folder for the report; {out} is a file.")
    with progress_steps() as progress:
        progress("loading", 0.0)
        # Imported here: torch takes seconds, and `onepos --help` has no use for it.
        from onepos.cli._demo_view import show_demo
        from onepos.demo import run_demo

        result = run_demo(out=out, random_state=seed, progress=progress)
    if json:
        print_json(_as_json(result))
    else:
        show_demo(result)


def _as_json(result: "DemoResult") -> dict[str, Any]:
    table = result.table
    return {
        "methods": {
            str(key): {
                metric: {"mean": row[(metric, "mean")], "std": row[(metric, "std")]}
                for metric in table.columns.unique(level=0)
            }
            for key, row in table.iterrows()
        },
        "runs": result.scores.to_dict("records"),
        "examples": [
            {
                "observed": example.observed,
                "recovered": [{"label": label, "confidence": share} for label, share in example.recovered],
                "true": list(example.true),
            }
            for example in result.examples
        ],
        "facts": dict(result.facts),
        "seconds": result.seconds,
        "report": str(result.report),
    }

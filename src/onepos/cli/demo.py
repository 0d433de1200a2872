"""``onepos demo``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from onepos.cli.output import InputError, JsonOption, print_json, print_line, progress_steps, show

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onepos.pages import Example
    from onepos.pages.demo import DemoResult


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
        from onepos.pages.demo import run_demo

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


_STYLE = {"observed": "blue", "right": "green", "wrong": "red", "missed": "yellow"}
_SHOWN = 3


def show_demo(result: "DemoResult") -> None:
    """Print the result for people."""
    from onepos.pages.demo_summary import PRESENT

    facts = result.facts
    print_line(
        f"{facts['n_train']:,} training pictures with {facts['mean_labels']:.2f} digits each, one of them named; "
        f"measured on {facts['n_test']:,} fully labelled pictures of other scans."
    )
    print_line()
    show(metric_table(result))
    runs = f"Mean ± standard deviation of {facts['n_runs']} runs. " if facts["n_runs"] > 1 else ""
    print_line(f"{runs}* best of the methods that saw one label; bce saw every label: the ceiling.")
    print_line()
    print_line("Labels that SMILE recovered for the first training pictures that hide some:")
    # Pictures with a single digit hide nothing; the report shows them all the same.
    show(recovered_labels([example for example in result.examples if len(example.true) > 1][:_SHOWN]))
    print_line("● observed  ✓ right  ✗ wrong  ○ missed")
    print_line(
        f"{facts['hidden']:,} labels were hidden; {facts['claimed']:,} are said to be there with {100 * PRESENT:.0f} % "
        f"or more, {facts['found']:,} of them rightly."
    )
    print_line()
    print_line(f"Report: {result.report}")
    print_line(f"Time:   {result.seconds:.0f} s")


def metric_table(result: "DemoResult") -> Table:
    """Return the five measures side by side, the best single-label method of each marked."""
    from onepos.metrics import METRICS, higher_is_better
    from onepos.pages import METRIC_TEXT

    means, spreads = result.table.xs("mean", axis=1, level=1), result.table.xs("std", axis=1, level=1)
    single = means.drop(index=result.scores.loc[result.scores["full_labels"], "method"].unique())
    made = Table(box=None, padding=(0, 1), header_style="bold")
    made.add_column("\nmethod", no_wrap=True)
    for metric in METRICS:
        head = (
            METRIC_TEXT[metric][0].replace("Average", "Avg.").replace(" ", "\n", 1).replace("One-error", "One-\nerror")
        )
        arrow = "↑" if higher_is_better(metric) else "↓"
        made.add_column(f"{head} {arrow}" if "\n" in head else f"\n{head} {arrow}", justify="right", no_wrap=True)
    for key in means.index:
        cells = []
        for metric in METRICS:
            best = single[metric].max() if higher_is_better(metric) else single[metric].min()
            spread = spreads.loc[key, metric]
            text = f"{means.loc[key, metric]:.3f}" + ("" if spread != spread else f"±{spread:.3f}".replace("±0", "±"))
            is_best = key in single.index and means.loc[key, metric] == best
            cells.append(Text(f"*{text}" if is_best else text, style="bold green" if is_best else ""))
        made.add_row(str(key), *cells)
    return made


def recovered_labels(examples: list["Example"]) -> Table:
    """Return pictures beside each other; below each what was observed, recovered and true."""
    made = Table(box=None, show_header=False, padding=(0, 1))
    for _ in examples:
        made.add_column(overflow="fold")
    made.add_row(*[Text(draw(example.image)) for example in examples])
    made.add_row(*[_describe(example) for example in examples])
    return made


def draw(image: "NDArray[np.floating]") -> str:
    """Draw a picture with half blocks: two pixels, one above the other, in each character."""
    import numpy as np

    ink = np.asarray(image) >= 0.4
    if len(ink) % 2:
        ink = np.vstack([ink, np.zeros_like(ink[:1])])
    signs = np.array([[" ", "▄"], ["▀", "█"]])
    return "\n".join("".join(line) for line in signs[ink[::2].astype(int), ink[1::2].astype(int)])


def _describe(example: "Example") -> Text:
    text = Text("observed")
    text.append(f" ● {example.observed}", style=_STYLE["observed"])
    text.append("\nrecovered\n")  # a line of its own: three pictures fit beside each other on 80 columns
    guesses = [
        Text(f"{mark.sign} {mark.label} {100 * (mark.confidence or 0.0):.0f}%", style=_STYLE[mark.status])
        for mark in example.guesses
    ]
    text.append_text(Text(" ").join(guesses))
    text.append("\ntrue")
    for mark in example.truth:
        text.append(f" {mark.sign} {mark.label}", style=_STYLE[mark.status])
    return text

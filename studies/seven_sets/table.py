"""Rebuild TABLE.md and the README's table from results.jsonl, next to the paper's published values.

python studies/seven_sets/table.py
"""

from pathlib import Path

import numpy as np
import pandas as pd
from run import DATASETS, HERE, METHODS, TRIALS, load_results

from onepos.metrics import METRICS, higher_is_better

PUBLISHED = HERE.parent / "published" / "smile2022.csv"
README = HERE.parents[1] / "README.md"
PAPER_METHODS = {"an": "AN", "an-ls": "AN-LS", "wan": "WAN", "smile": "SMILE"}


def measured() -> pd.DataFrame:
    """Return one row a finished cell: data set, method, trial, the five metrics."""
    rows = [{k: row[k] for k in ("dataset", "method", "trial")} | row["test"] for row in load_results().values()]
    return pd.DataFrame(rows)


def published() -> pd.DataFrame:
    """Return the paper's values, indexed by (metric, data set, method)."""
    frame = pd.read_csv(PUBLISHED)
    frame["metric"] = frame["metric"].str.lower().str.replace(" ", "_").str.replace("-", "_")
    return frame.set_index(["metric", "dataset", "method"]).sort_index()


def cell(mean: float, std: float, bold: bool = False) -> str:
    """Format mean ± std as the paper does, without the leading zero."""
    text = f"{mean:.3f}±{std:.3f}".replace("0.", ".")
    return f"**{text}**" if bold else text


def table(metric: str, cells: pd.DataFrame, paper: pd.DataFrame) -> str:
    """One Markdown table: data sets down, methods and the paper's methods across; the best of ours but bce in bold."""
    stats = cells.groupby(["dataset", "method"])[metric].agg(["mean", "std", "count"])
    sign = -1.0 if higher_is_better(metric) else 1.0
    heads = [f"`{method}`" for method in METHODS] + [f"paper: {name}" for name in PAPER_METHODS.values()]
    lines = ["| data set | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for dataset in DATASETS:
        row = {m: stats.loc[(dataset, m)] for m in METHODS if (dataset, m) in stats.index}
        contenders = [sign * round(r["mean"], 3) for m, r in row.items() if m != "bce"]
        texts = []
        for method in METHODS:
            if method not in row or row[method]["count"] < len(TRIALS):
                texts.append("–")
                continue
            best = method != "bce" and sign * round(row[method]["mean"], 3) == min(contenders)
            texts.append(cell(row[method]["mean"], row[method]["std"], best))
        for name in PAPER_METHODS.values():
            value = paper.loc[(metric, dataset, name)]
            texts.append(cell(value["mean"], value["std"]))
        lines.append(f"| {dataset} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def verdicts(cells: pd.DataFrame, paper: pd.DataFrame) -> str:
    """Say in plain words how SMILE stands against the paper's SMILE and against the others here."""
    means = cells.groupby(["dataset", "method"])[list(METRICS)].mean()
    lines = [
        "| data set | AP − paper's | AP − best of an, an-ls, wan | AP − linear | AP − frequency | Hamming − paper's |",
        "|---|---|---|---|---|---|",
    ]
    for dataset in DATASETS:
        if (dataset, "smile") not in means.index:
            continue
        precision = means.loc[dataset]["average_precision"]
        ours = precision["smile"]
        rivals = max(precision.get(m, np.nan) for m in ("an", "an-ls", "wan"))
        paper_ap = paper.loc[("average_precision", dataset, "SMILE")]["mean"]
        paper_hamming = paper.loc[("hamming_loss", dataset, "SMILE")]["mean"]
        hamming = means.loc[(dataset, "smile"), "hamming_loss"]
        differences = [
            ours - paper_ap,
            ours - rivals,
            ours - precision.get("linear", np.nan),
            ours - precision.get("frequency", np.nan),
            hamming - paper_hamming,
        ]
        lines.append(f"| {dataset} | " + " | ".join(f"{d:+.3f}" for d in differences) + " |")
    return "\n".join(lines)


def write_readme(text: str) -> None:
    """Put the table between the README's markers."""
    before, _, rest = README.read_text(encoding="utf-8").partition("<!-- table: average precision -->")
    _, _, after = rest.partition("<!-- end of table -->")
    README.write_text(
        f"{before}<!-- table: average precision -->\n{text}\n<!-- end of table -->{after}", encoding="utf-8"
    )


def render() -> tuple[str, str]:
    """Return TABLE.md and the README's table."""
    cells, paper = measured(), published()
    pieces = [
        "# Seven data sets, five metrics",
        "",
        "Made by `make table` from `results.jsonl`; the protocol is the docstring of `run.py`. Mean ± standard",
        "deviation over five trials; the best of ours other than `bce` (full supervision) in bold. The paper's values",
        "are from its tables; its splits and single positives are not public, so that trials cannot be paired.",
        "",
        "## SMILE here, as differences",
        "",
        verdicts(cells, paper),
    ]
    for metric in METRICS:
        arrow = "↑" if higher_is_better(metric) else "↓"
        pieces += ["", f"## {metric.replace('_', ' ').capitalize()} {arrow}", "", table(metric, cells, paper)]
    return "\n".join(pieces) + "\n", table("average_precision", cells, paper)


def main() -> None:
    """Write both."""
    full, short = render()
    Path(HERE / "TABLE.md").write_text(full, encoding="utf-8")
    write_readme(short)
    print(f"wrote {HERE / 'TABLE.md'} and the table in {README}")


if __name__ == "__main__":
    main()

"""Label sets at ½ and by what is known instead, from the study of thresholds."""

from pathlib import Path

import pandas as pd

FILE = "studies/thresholds/results.csv"
RULES = ("½", "m true", "m estimated", "rates", "sample")


def threshold_block(root: Path) -> str:
    """Return a table a method: Hamming loss and F1 by data set and rule, the best of a row in bold."""
    if not (root / FILE).is_file():
        return f"No results yet: {FILE} is not there."
    frame = pd.read_csv(root / FILE)
    trials = frame.groupby(["dataset", "method"])["trial"].transform("nunique")
    whole = frame[trials == trials.max()]
    tables = [f"`{method}`\n\n{_table(rows)}" for method, rows in whole.groupby("method", sort=False)]
    note = f"Means over {trials.max()} trials; Hamming loss (lower is better) / F1 of a row's set (higher is better)."
    if len(whole) < len(frame):
        note += " Data sets whose trials are not all finished are left out."
    return "\n\n".join([*tables, note])


def _table(rows: pd.DataFrame) -> str:
    means = rows.groupby(["dataset", "rule"], sort=False)[["hamming_loss", "f1", "m", "m_estimated"]].mean()
    lines = [f"| data set | m | estimate | {' | '.join(RULES)} |", f"| --- |{' ---: |' * (2 + len(RULES))}"]
    for dataset in rows["dataset"].unique():
        part = means.loc[dataset].loc[list(RULES)].round(3)
        low, high = part["hamming_loss"].min(), part["f1"].max()
        cells = [
            f"{_bold(loss, loss == low)} / {_bold(score, score == high)}"
            for loss, score in zip(part["hamming_loss"], part["f1"], strict=True)
        ]
        facts = f"{part['m'].iloc[0]:.2f} | {part['m_estimated'].iloc[0]:.2f}"
        lines.append(f"| {dataset} | {facts} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _bold(value: float, best: bool) -> str:
    text = f"{value:.3f}".removeprefix("0")
    return f"**{text}**" if best else text

"""A fitted model in a few lines, for notebooks."""

from collections.abc import Mapping
from html import escape
from typing import Any

#: Label names shown; the others are counted.
_SHOWN = 5


def fitted_facts(estimator: Any) -> dict[str, str]:
    """Return what is worth seeing at a glance of a fitted classifier."""
    names = [str(name) for name in estimator.classes_[:_SHOWN]]
    more = ", …" if len(estimator.classes_) > _SHOWN else ""
    facts = {
        "labels": f"{len(estimator.classes_):,}: {', '.join(names)}{more}",
        "features": f"{estimator.n_features_in_:,}",
    }
    history = getattr(estimator, "history_", None)
    if history is not None and len(history):
        facts["epochs" if "epoch" in history.records[0] else "iterations"] = f"{len(history):,}"
        best = history.facts.get("best_epoch")
        score = next((name for name in history.facts if name.startswith("best_") and name != "best_epoch"), None)
        if best is not None and score is not None:
            metric = score.removeprefix("best_").replace("_", " ")
            facts["best validation score"] = f"{metric} {history.facts[score]:.4f} in epoch {best}"
    if hasattr(estimator, "thresholds_"):
        low, high = estimator.thresholds_.min(), estimator.thresholds_.max()
        facts["thresholds"] = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    elif not estimator.single_label_:
        facts["thresholds"] = "½"
    if hasattr(estimator, "calibration_"):
        facts["calibrated on"] = f"{estimator.calibration_.n_rows:,} rows with complete labels"
    return facts


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a table of facts; every text is escaped."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f'<table><caption style="text-align:left">{escape(title)}</caption><tbody>{rows}</tbody></table>'

"""What a model was made with: its settings, its training, the versions in use."""

from typing import Any

from onepos.study.machine import versions


def model_settings(model: Any) -> dict[str, str]:
    """Return every parameter and its value as text, thresholds and calibration in a few words."""
    estimator = getattr(model, "estimator_", model)
    settings = {name: in_words(value) for name, value in estimator.get_params(deep=False).items()}
    if hasattr(estimator, "thresholds_"):
        values = estimator.thresholds_
        settings["thresholds"] = (
            f"{values[0]:.4g} for every label"
            if (values == values[0]).all()
            else f"{values.min():.4g} to {values.max():.4g}, by label"
        )
        settings["thresholds"] += ", at least one label a row" if estimator.at_least_one_ else ""
    if hasattr(estimator, "calibration_"):
        found = estimator.calibration_
        settings["calibration"] = (
            f"on {found.n_rows:,} rows with complete labels: slope {found.slope:.4g}, "
            f"offsets {found.offsets.min():.3g} to {found.offsets.max():.3g}"
        )
    return settings


def training_facts(model: Any) -> dict[str, str]:
    """Return what is known about the training, as words."""
    facts: dict[str, str] = {}
    table = getattr(model, "facts_", {})
    if table:
        facts["rows trained on"] = f"{table['training_rows']:,} of {table['rows']:,}"
        facts["rows without a tag"] = f"{table['rows_without_tag']:,}"
        decided = table.get("decisions")
        if decided:
            facts["decisions"] = f"{decided['accepted']:,} accepted, {decided['rejected']:,} rejected"
    history = getattr(getattr(model, "estimator_", model), "history_", None)
    if history is not None:
        facts |= {name.replace("_", " "): in_words(value) for name, value in history.facts.items()}
    return facts


def model_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that predictions depend on."""
    return dict(versions())


def in_words(value: Any) -> str:
    """Return a setting as one line of text.

    Examples
    --------
    >>> in_words(0.123456), in_words((64, 32)), in_words({"search": "exact", "recall": 1.0})
    ('0.1235', '64, 32', 'search exact, recall 1')
    """
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(in_words(item) for item in value)
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else text[:199] + "…"

"""One self-contained HTML page about a fitted model: the plain values that it shows, and the page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from onepos._utils.files import write_durably
from onepos._utils.machine import versions
from onepos._utils.validation import check_validation_labels
from onepos.doctor import Diagnosis, diagnose
from onepos.methods.registry import METHODS, key_of
from onepos.metrics import METRIC_TITLES, higher_is_better, single_positive_values
from onepos.pages.figures import figure_svg, model_figures
from onepos.pages.style import embed_svg, render_page, require_report
from onepos.table.evaluation import bootstrap_intervals, complete_values
from onepos.table.facts import BARELY, SINGLE_POSITIVE_TITLES
from onepos.table.kinds import as_words, named

if TYPE_CHECKING:
    from onepos.methods._base import OnePositiveClassifier
    from onepos.table import KnownLabels, TableData, TableModel

#: Rows in the list of the most confident completions, how many of them about one label, and characters of each text.
_MOST_COMPLETIONS, _PER_LABEL, _LONGEST_TEXT = 20, 3, 160
#: Mean set size and expectation agree if they differ by no more than this share.
_AGREE = 0.15
#: What each measure of complete labels means, in a few words.
_MEANING = {
    "average_precision": "how well true labels outrank false ones",
    "one_error": "share of rows whose first suggestion is wrong",
    "ranking_loss": "share of pairs of a true and a false label in the wrong order",
    "coverage": "how much of the ranking you read until you have met all true labels",
    "hamming_loss": "share of labels wrongly suggested or wrongly left out",
}


def model_report(
    model: "OnePositiveClassifier | TableModel",
    X: Any,
    Y: Any,
    path: str | Path,
    *,
    complete: bool = False,
    measured: Any = None,
    ids: Sequence[Any] | None = None,
    texts: Sequence[Any] | None = None,
    diagnosis: Diagnosis | None = None,
    title: str = "",
    lead: str = "",
) -> Path:
    """Write a page about a fitted model: data, measures with intervals, training, every label, completions, settings.

    The page needs no other file and no network; every text is shown as text. Its own policy lets the browser load
    nothing and run one script, the one it was written with.

    Parameters
    ----------
    model : a fitted onepos classifier, or a TableModel
    X : features, or the table, as the model's ``predict_proba`` takes them
    Y : indicator of shape (n_samples, n_labels)
        What is known of the rows' labels.
    path : str or Path
        The HTML file. Its folder is created if it does not exist.
    complete : bool
        Whether Y has all labels. If so: the five measures, quality label by label, and a reliability drawing. If not,
        only how high the known labels are ranked: nobody knows whether another one is wrong.
    measured : sequence of int, optional
        Positions of the rows to measure on, best those that training did not see; default: all.
    ids, texts : sequences, optional
        A name and a text for each row, shown beside its completions.
    diagnosis : Diagnosis, optional
        Findings of ``onepos.doctor.diagnose`` to show.
    title, lead : str, optional
        Heading, and the sentences below it.

    Returns
    -------
    Path
        The file.
    """
    require_report()
    scored = Scored(model, X, Y, complete=complete, measured=measured)
    summary = summarise_model(scored, ids=ids, texts=texts)
    rows = scored.measured
    figures = model_figures(scored.estimator, scored.probabilities[rows], scored.known[rows] if complete else None)
    drawings = {
        name: drawn and {"caption": drawn[1], "svg": embed_svg(figure_svg(drawn[0]), name, drawn[1])}
        for name, drawn in figures.items()
    }
    page = render_page(
        "model",
        "writing the model's report",
        title=title or f"Model: {summary['facts']['method']}",
        lead=lead,
        drawings=drawings,
        diagnosis=diagnosis,
        **summary,
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # A label from a broken file may hold half a character, which UTF-8 cannot write.
    return write_durably(Path(path), page.encode("utf-8", "replace"))


def table_report(
    model: "TableModel",
    data: "TableData",
    labels: "KnownLabels",
    path: Path,
    *,
    measured: Any = None,
) -> None:
    """Write the page of a model and a labelled table; ``measured`` are positions of rows (None: all)."""
    frame, text = named(data.frame), model.encoder_.text[:1]
    ids = as_words(frame[model.id_]) if model.id_ in frame.columns else [None] * len(frame)
    diagnosis = None
    if not labels.complete:  # the doctor expects single observed labels; it would report complete ones as too many
        diagnosis = diagnose(
            frame[list(model.encoder_.kinds_)],
            labels.table,
            text=[name for name in model.encoder_.text if name in frame.columns],
        )
    model_report(
        model,
        frame,
        labels.table.to_numpy(),
        path,
        complete=labels.complete,
        measured=measured,
        ids=[number if name is None else name for number, name in enumerate(ids, start=1)],
        texts=frame[text[0]].fillna("").tolist() if text else None,
        diagnosis=diagnosis,
    )


class Scored:
    """A model's answers on rows, computed once; parameters as those of ``model_report``."""

    def __init__(
        self, model: "OnePositiveClassifier | TableModel", X: Any, Y: Any, *, complete: bool, measured: Any
    ) -> None:
        from sklearn.utils.validation import check_is_fitted

        self.model, self.complete = model, complete
        self.estimator = cast("OnePositiveClassifier", getattr(model, "estimator_", model))
        check_is_fitted(self.estimator)
        #: What ``TableModel`` reports about its training; empty for a classifier.
        self.facts: dict[str, Any] = getattr(model, "facts_", {})
        self.labels = [str(name) for name in self.estimator.classes_]
        self.known: NDArray[np.int8] = check_validation_labels(Y, self.estimator.classes_)
        self.probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
        if len(self.known) != len(self.probabilities):
            raise ValueError(
                f"X and Y must have the same number of rows; got {len(self.probabilities)} and {len(self.known)}."
            )
        sets = np.asarray(model.predict(X))
        self.sets = sets if sets.ndim == 2 else sets[:, None] == self.estimator.classes_[None, :]
        self.thresholds = np.asarray(getattr(self.estimator, "thresholds_", np.full(len(self.labels), 0.5)))
        rows = np.arange(len(self.known)) if measured is None else np.asarray(measured, dtype=np.intp)
        self.measured: NDArray[np.intp] = rows if complete else rows[(self.known[rows] > 0).any(axis=1)]


def summarise_model(
    scored: Scored, *, ids: Sequence[Any] | None = None, texts: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Return everything as dicts, lists, texts and numbers; without ids, rows are numbered from 1 on."""
    known, held_out = scored.known > 0, scored.facts.get("held_out")
    known_per_row = float(known.sum(axis=1).mean())
    expected_per_row = float(scored.probabilities.sum(axis=1).mean())
    set_size = float(scored.sets.sum(axis=1).mean())
    return {
        "facts": {
            "method": _method_name(scored),
            "rows": len(known),
            "features": int(scored.estimator.n_features_in_),
            "labels": len(scored.labels),
            "complete": scored.complete,
            "measured": len(scored.measured),
            "known_per_row": known_per_row,
            "expected_per_row": expected_per_row,
            "set_size": set_size,
            "without_label": int((~known.any(axis=1)).sum()),
            "calibrated": hasattr(scored.estimator, "calibration_"),
        },
        "advice": advice(
            set_size,
            expected_per_row,
            known_per_row if scored.complete else None,
            getattr(scored.estimator, "n_positives", None),
        ),
        "measures": _measures(scored),
        "labels": _label_records(scored),
        "completions": _completions(scored, ids, texts),
        "training": _training_facts(scored),
        "settings": _settings(scored.estimator),
        "versions": dict(versions()),
        "comparison": held_out and held_out | {"warning": BARELY if held_out["barely_beats_frequency"] else None},
        "members": _members(scored.estimator),
    }


def _method_name(scored: Scored) -> str:
    key = scored.facts.get("method") or key_of(scored.estimator)
    if key not in METHODS:
        return type(scored.estimator).__name__
    name = METHODS[key].name
    return name if name.lower() == key else f"{name} ({key})"


def advice(set_size: float, expected: float, true: float | None, asked: float | None) -> str | None:
    """Return what to do if labels per row in the sets differ from those expected, or from the true ones if known.

    There is nothing to do if the model was ``asked`` for about as many: its sets then differ on purpose.
    """
    goal = expected if true is None else true
    if abs(set_size - goal) <= _AGREE * goal or abs((asked or 0.0) - goal) <= _AGREE * goal:
        return None
    more = "more" if set_size > goal else "fewer"
    sets = f"The model suggests {set_size:.2f} labels per row, {more} than the {goal:.2f} that"
    if true is not None:
        return f"{sets} are true. Unless this is intended, fit with n_positives={true:.2g} (--n-positives {true:.2g})."
    return (
        f"{sets} the probabilities add up to. If you know the mean number of labels per row, fit with n_positives=M "
        "(--n-positives M). If you have rows with complete labels, calibrate on them (--sample)."
    )


def _measures(scored: Scored) -> list[dict[str, Any]]:
    """Each measure with its mean and the 95 % interval from resampled rows; none where no row can be measured."""
    rows = scored.measured
    if not len(rows):
        return []
    truth, scores = scored.known[rows], scored.probabilities[rows]
    if scored.complete:
        at_least_one = bool(getattr(scored.model, "at_least_one_", False))
        values = complete_values(truth, scores, scored.thresholds.tolist(), at_least_one=at_least_one)
    else:
        values = single_positive_values(truth, scores)
    return [
        {
            "key": name,
            "name": (METRIC_TITLES if scored.complete else SINGLE_POSITIVE_TITLES)[name],
            "meaning": _MEANING[name] if scored.complete else "",
            "higher": not scored.complete or higher_is_better(name),
            **{part: value if np.isfinite(value) else None for part, value in found.items()},
        }
        for name, found in bootstrap_intervals(values).items()
    ]


def _label_records(scored: Scored) -> list[dict[str, Any]]:
    """Return one record per label; quality is of the measured rows and needs complete labels, else None."""
    from sklearn.metrics import average_precision_score, f1_score

    known, rows = scored.known > 0, scored.measured
    records = []
    for j, name in enumerate(scored.labels):
        truth = known[rows, j]
        judged = scored.complete and truth.any()
        score, in_set = scored.probabilities[rows, j], scored.sets[rows, j] > 0
        records.append(
            {
                "name": name,
                "training": scored.facts.get("counts", {}).get(name),
                "known": int(known[:, j].sum()),
                "rate": float(known[:, j].mean()),
                "probability": float(scored.probabilities[:, j].mean()),
                "threshold": float(scored.thresholds[j]),
                "in_sets": int(scored.sets[:, j].sum()),
                "average_precision": float(average_precision_score(truth, score)) if judged else None,
                "f1": float(f1_score(truth, in_set)) if judged else None,
            }
        )
    return records


def _completions(scored: Scored, ids: Sequence[Any] | None, texts: Sequence[Any] | None) -> list[dict[str, Any]]:
    """Of each row the most likely label that is not known to be there; the surest rows first, a few per label."""
    # With complete labels these are the model's most confident mistakes.
    open_entries = scored.known <= 0 if scored.complete else scored.known == 0
    scores = np.where(open_entries, scored.probabilities, -np.inf)
    best = scores.argmax(axis=1)
    value = scores[np.arange(len(scores)), best]
    order = pd.Series(best, index=np.arange(len(best)))[np.argsort(-value, kind="stable")]
    rows = order.index[(order.groupby(order).cumcount() < _PER_LABEL) & np.isfinite(value[order.index])]
    return [
        {
            "row": str(ids[row]) if ids is not None else str(row + 1),
            "text": _in_short(texts[row], _LONGEST_TEXT) if texts is not None else "",
            "known": [scored.labels[j] for j in np.flatnonzero(scored.known[row] > 0)],
            "label": scored.labels[best[row]],
            "probability": float(value[row]),
            "in_set": bool(scored.sets[row, best[row]]),
        }
        for row in rows[:_MOST_COMPLETIONS]
    ]


def _training_facts(scored: Scored) -> dict[str, str]:
    """Return what is known about the training, as words."""
    facts = {}
    if table := scored.facts:
        facts["rows trained on"] = f"{table['training_rows']:,} of {table['rows']:,}"
        facts["rows without a tag"] = f"{table['rows_without_tag']:,}"
        if decided := table.get("decisions"):
            facts["decisions"] = ", ".join(f"{count:,} {name}" for name, count in decided.items())
    history = getattr(scored.estimator, "history_", None)
    if history is not None:
        facts |= {name.replace("_", " "): in_words(value) for name, value in history.facts.items()}
    return facts


def _settings(estimator: Any) -> dict[str, str]:
    """Return every parameter and its value as text, thresholds and calibration in a few words."""
    settings = {name: in_words(value) for name, value in estimator.get_params(deep=False).items()}
    if hasattr(estimator, "thresholds_"):
        low, high = estimator.thresholds_.min(), estimator.thresholds_.max()
        words = f"{low:.4g} for every label" if low == high else f"{low:.4g} to {high:.4g}, by label"
        settings["thresholds"] = words + (", at least one label per row" if estimator.at_least_one_ else "")
    if hasattr(estimator, "calibration_"):
        found = estimator.calibration_
        settings["calibration"] = (
            f"on {found.n_rows:,} rows with complete labels: slope {found.slope:.3g}, offsets "
            f"{found.offsets.min():.3g} to {found.offsets.max():.3g}, {len(found.weights)} components"
        )
    return settings


def _members(estimator: Any) -> list[dict[str, Any]]:
    """The methods that a combination tried, those that count most first."""
    records = [record for record in getattr(estimator, "history_", []) if "weight" in record]
    total = sum(record["weight"] for record in records) or 1.0
    return [
        {
            "method": str(record["method"]),
            "settings": in_words(record.get("settings") or {}),
            "weight": float(record["weight"] / total),
            "seconds": record.get("seconds"),
        }
        for record in sorted(records, key=lambda record: -record["weight"])
    ]


def in_words(value: Any) -> str:
    """Return a setting as one line of text."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(in_words(item) for item in value)
    return _in_short(getattr(value, "__name__", value), 200)


def _in_short(value: Any, longest: int) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"

"""What training prints: what was read, how well held-out tags are ranked, what to do next."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos.cli._output import print_line, print_prose
from onepos.cli._table_training import Trained
from onepos.columns._comparison import BARELY
from onepos.columns.scores import RECALL_AT

if TYPE_CHECKING:
    from onepos.columns import TableModel

_KINDS = {
    "number": "numbers",
    "boolean": "yes/no",
    "category": "categories",
    "values": "many-valued words",
    "list": "lists",
    "text": "text",
}
_SHOWN = 6
#: Facts that are file names, to be copied as they stand.
_FILES = ("model", "report")


def show_training(trained: Trained, data: Path, out: Path | None, report: Path | None = None) -> None:
    """Print the result for people."""
    facts = trained.model.facts_
    fact(data.name, f"{facts['rows']:,} rows")
    fact("columns", _columns(trained.model))
    for name, reason in list(trained.model.encoder_.left_out_.items())[:_SHOWN]:
        fact("left out", f"{name!r} {reason}")
    _show_more("left out", len(trained.model.encoder_.left_out_))
    for note in trained.notes[:_SHOWN]:
        fact("note", note)
    _show_more("note", len(trained.notes))
    fact("labels", _labels(trained.model))
    if facts["decisions"] is not None:
        fact("decisions", _decisions(facts["decisions"]))
    if facts["tuning"] is not None:
        _show_tuning(facts["tuning"])
    fact("trained", f"{facts['method']} on {facts['training_rows']:,} rows in {trained.seconds:.1f} s")
    if facts["method"] == "auto":
        _show_members(trained.model.estimator_)
    _show_comparison(facts["held_out"], calibrated=facts["calibration"] is not None)
    if facts["calibration"] is None and facts["sets"] is not None:
        fact("sets", _sets(facts["sets"]))
    if facts["calibration"] is not None:
        fact("calibrated", _calibrated(facts["calibration"]))
    if report is not None:
        fact("report", str(report))
    if out is not None:
        fact("model", f"{out} ({_size(out)})")
        table = next(iter(sorted(data.glob("*.p*q*"))), data) if data.is_dir() else data
        print_line(f"Next: onepos predict {out} {table} --out predictions.csv")


def fact(name: str, value: str) -> None:
    """Print one line of a list of facts; not in a table, which would break file names."""
    (print_line if name in _FILES else print_prose)(f"{name:<11} {value}")


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def _show_more(name: str, count: int) -> None:
    if count > _SHOWN:
        fact(name, f"… and {count - _SHOWN:,} more; --json has them all")


def _columns(model: "TableModel") -> str:
    counts = Counter(model.encoder_.kinds_.values())
    kinds = ", ".join(f"{counts[kind]:,} {word}" for kind, word in _KINDS.items() if counts[kind])
    return f"{kinds} → {model.encoder_.n_features_:,} features"


def _labels(model: "TableModel") -> str:
    ranked = sorted(model.facts_["counts"].items(), key=lambda pair: (-pair[1], pair[0]))
    (most, n_most), (least, n_least) = ranked[0], ranked[-1]
    without = model.facts_["rows_without_tag"]
    missing = f"; {without:,} row{'s have' if without != 1 else ' has'} no tag" if without else ""
    return f"{len(ranked):,}, from {most!r} ({n_most:,} rows) to {least!r} ({n_least:,}){missing}"


def _decisions(counts: dict[str, int]) -> str:
    elsewhere = f"; {counts['elsewhere']:,} about rows that are not here" if counts["elsewhere"] else ""
    return f"{counts['accepted']:,} accepted, {counts['rejected']:,} rejected{elsewhere}"


def _show_members(estimator: Any) -> None:
    """Show the members of a combination, those that count most first, and why no more were tried."""
    history = estimator.history_
    total = sum(record["weight"] for record in history)
    for record in sorted(history, key=lambda record: -record["weight"])[:_SHOWN]:
        share = record["weight"] / total if total else 0.0
        likelihood = f", log-likelihood {record['log_likelihood']:.3f}" if "log_likelihood" in record else ""
        fact("member", f"{record['method']:<10} {share:4.0%} of the weight{likelihood}, {record['seconds']:.1f} s")
    _show_more("member", len(history))
    if history.facts["stopped"] == "time_budget":
        members = f"{len(history)} member{'s' if len(history) != 1 else ''}"
        fact("note", f"time was up after {members}; --budget SECONDS gives more, and may rank better")


def _show_tuning(tuning: dict[str, Any]) -> None:
    """Show the chosen settings and what was tried, best first."""
    tried = tuning["trials"]
    ended = {"n_trials": "", "time_budget": ", ended by --budget"}[tuning["stopped"]]
    fact("tuned", f"{len(tried)} setting{'s' if len(tried) != 1 else ''} tried{ended}")
    ranked = sorted(tried, key=lambda trial: -(trial["score"] if trial["score"] is not None else -1.0))
    for trial in ranked[:_SHOWN]:
        score = f"{trial['score']:.4f}" if trial["score"] is not None else trial["state"]
        first = " (the settings given)" if trial is tried[0] else ""
        fact("tried", f"{score:<8} {_settings(trial['settings'])}{first}")
    _show_more("tried", len(ranked))
    fact("chosen", _settings(tuning["chosen"]))


def _settings(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={f'{value:.4g}' if isinstance(value, float) else value}" for name, value in values.items())


def _calibrated(found: dict[str, Any]) -> str:
    return (
        f"on {found['rows']:,} rows with {found['labels_per_row']:.2f} labels each; the model expected "
        f"{found['expected_before']:.2f} and now {found['expected_after']:.2f}; sets are cut at ½"
    )


def _show_comparison(found: dict[str, Any] | None, *, calibrated: bool) -> None:
    """Show how this and simpler methods rank tags that training did not see, and warn if there is little between."""
    if found is None:
        fact("held out", "nothing, so there is no score")
        return
    where = f"{found['rows']:,} rows, each predicted by models that did not see it"
    where = where if found["out_of_fold"] else f"{found['rows']:,} rows"
    fact("held out", f"{where}; mean reciprocal rank of the tag{' before calibration' if calibrated else ''}:")
    for method, scores in found["methods"].items():
        fact("", f"{method:<10} {scores['reciprocal_rank']:.3f}, log-likelihood {scores['log_likelihood']:.3f}")
    recalls = [f"{found[f'recall_at_{k}']:.0%} among the first {k}" for k in RECALL_AT if f"recall_at_{k}" in found]
    if recalls:
        fact("", f"the tag is {', '.join(recalls)}")
    if found["barely_beats_frequency"]:
        fact("WARNING", BARELY)


def _sets(found: dict[str, Any]) -> str:
    size = f"{found['mean_size']:.2f} labels per row"
    if not found["guessed"]:
        return f"{size}; {found['n_positives']:g} were asked for"
    return f"{size}. This number is a guess: give the true mean with --n-positives M, or complete rows with --sample"

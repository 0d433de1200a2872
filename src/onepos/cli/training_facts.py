"""What is printed about a training: for people, and as JSON."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from onepos.cli.output import print_line, print_prose

if TYPE_CHECKING:
    from onepos.table import TableModel

_SHOWN, _SHOWN_COLUMNS = 6, 20


def as_json(model: "TableModel", notes: list[str], seconds: float) -> dict[str, Any]:
    """Return what ``--json`` says about a training."""
    facts = {name: value for name, value in model.facts_.items() if name not in ("notes", "counts")}
    return {
        **facts,
        "labels": model.facts_["counts"],
        **({"members": model.estimator_.history_.records} if facts["method"] == "auto" else {}),
        "columns": model.encoder_.kinds_,
        "left_out": model.encoder_.left_out_,
        "became": model.encoder_.describe(),
        "features": model.encoder_.n_features_,
        "notes": notes,
        "seconds": seconds,
    }


def show_training(model: "TableModel", name: str, notes: list[str], seconds: float) -> None:
    """Print the result for people; ``name`` is that of the table."""
    facts, encoder = model.facts_, model.encoder_
    fact(name, f"{facts['rows']:,} rows")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(encoder.kinds_.values()).items())
    fact("columns", f"{kinds} → {encoder.n_features_:,} features")
    for embedder in encoder.embedders_:
        print_line(f"{'embedder':<11} {embedder}")  # a path, to be copied
    _show_first("", [f"{column!r} {became}" for column, became in encoder.describe().items()], _SHOWN_COLUMNS)
    _show_first("note", notes)
    _show_labels(facts)
    if facts["tuning"] is not None:
        _show_tuning(facts["tuning"])
    fact("trained", f"{facts['method']} on {facts['training_rows']:,} rows in {seconds:.1f} s")
    if facts["method"] == "auto":
        _show_members(model.estimator_.history_)
    _show_comparison(facts["held_out"], calibrated=facts["calibration"] is not None)
    _show_sets(facts["sets"], facts["calibration"])


def fact(name: str, value: str) -> None:
    """Print one line of a list of facts."""
    print_prose(f"{name:<11} {value}")


def _show_first(name: str, values: list[str], shown: int = _SHOWN) -> None:
    for value in values[:shown]:
        fact(name, value)
    if len(values) > shown:
        fact(name, f"… and {len(values) - shown:,} more; --json has them all")


def _show_labels(facts: dict[str, Any]) -> None:
    """Show how many labels there are, the most and the least frequent one, and what a reviewer decided."""
    ranked = sorted(facts["counts"].items(), key=lambda pair: (-pair[1], pair[0]))
    (most, n_most), (least, n_least) = ranked[0], ranked[-1]
    without = facts["rows_without_tag"]
    missing = f"; {without:,} row{'s have' if without != 1 else ' has'} no tag" if without else ""
    fact("labels", f"{len(ranked):,}, from {most!r} ({n_most:,} rows) to {least!r} ({n_least:,}){missing}")
    if (decided := facts["decisions"]) is not None:
        elsewhere = f"; {decided['elsewhere']:,} about rows that are not here" if decided["elsewhere"] else ""
        fact("decisions", f"{decided['accepted']:,} accepted, {decided['rejected']:,} rejected{elsewhere}")


def _show_tuning(tuning: dict[str, Any]) -> None:
    """Show the chosen settings and what was tried, best first."""
    trials = tuning["trials"]
    ended = ", ended by --budget" if tuning["stopped"] == "time_budget" else ""
    fact("tuned", f"{len(trials)} setting{'s' if len(trials) != 1 else ''} tried{ended}")
    lines = []
    for trial in sorted(trials, key=lambda trial: -(trial["score"] if trial["score"] is not None else -1.0)):
        score = f"{trial['score']:.4f}" if trial["score"] is not None else trial["state"]
        first = " (the settings given)" if trial is trials[0] else ""
        lines.append(f"{score:<8} {_settings(trial['settings'])}{first}")
    _show_first("tried", lines)
    fact("chosen", _settings(tuning["chosen"]))


def _settings(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={f'{value:.4g}' if isinstance(value, float) else value}" for name, value in values.items())


def _show_members(history: Any) -> None:
    """Show the members of a combination, those that count most first, and why no more were tried."""
    total, lines = sum(record["weight"] for record in history), []
    for record in sorted(history, key=lambda record: -record["weight"]):
        share = record["weight"] / total if total else 0.0
        likelihood = f", log-likelihood {record['log_likelihood']:.3f}" if "log_likelihood" in record else ""
        lines.append(f"{record['method']:<10} {share:4.0%} of the weight{likelihood}, {record['seconds']:.1f} s")
    _show_first("member", lines)
    if history.facts["stopped"] == "time_budget":
        members = f"{len(history)} member{'s' if len(history) != 1 else ''}"
        fact("note", f"time was up after {members}; --budget SECONDS gives more, and may rank better")


def _show_comparison(held_out: dict[str, Any] | None, *, calibrated: bool) -> None:
    """Show how this and simpler methods rank tags that training did not see, and warn if there is little between."""
    from onepos.table.facts import BARELY, RECALL_AT

    if held_out is None:
        fact("held out", "nothing, so there is no score")
        return
    unseen = ", each predicted by models that did not see it" if held_out["out_of_fold"] else ""
    before = " before calibration" if calibrated else ""
    fact("held out", f"{held_out['rows']:,} rows{unseen}; mean reciprocal rank of the tag{before}:")
    for method, scores in held_out["methods"].items():
        fact("", f"{method:<10} {scores['reciprocal_rank']:.3f}, log-likelihood {scores['log_likelihood']:.3f}")
    recalls = {k: held_out[f"recall_at_{k}"] for k in RECALL_AT if f"recall_at_{k}" in held_out}
    if recalls:
        shares = [f"{'first' if k == 1 else f'among the first {k}'} in {share:.0%}" for k, share in recalls.items()]
        fact("", f"the tag is {', '.join(shares)} of the rows")
    if held_out["barely_beats_frequency"]:
        fact("WARNING", BARELY)


def _show_sets(sets: dict[str, Any], calibration: dict[str, Any] | None) -> None:
    """Show how large the sets of labels are, and where that comes from."""
    if calibration is not None:
        fact(
            "calibrated",
            f"on {calibration['rows']:,} rows with {calibration['labels_per_row']:.2f} labels each; the model expected "
            f"{calibration['expected_before']:.2f} and now {calibration['expected_after']:.2f}; sets are cut at ½",
        )
        return
    guess = ". This number is a guess: give the true mean with --n-positives M, or complete rows with --sample"
    why = guess if sets["guessed"] else f"; {sets['n_positives']:g} were asked for"
    fact("sets", f"{sets['mean_size']:.2f} labels per row{why}")

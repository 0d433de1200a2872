"""What is printed about a training: for people, and as JSON."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from onepos.cli.output import print_line, print_prose

if TYPE_CHECKING:
    from onepos.cli.fit import Trained

_SHOWN, _SHOWN_COLUMNS = 6, 20


def as_json(trained: "Trained") -> dict[str, Any]:
    """Return what ``--json`` says about a training."""
    model = trained.model
    facts = {name: value for name, value in model.facts_.items() if name not in ("notes", "counts")}
    if facts["method"] == "auto":
        facts["members"] = model.estimator_.history_.records
    return facts | {
        "labels": model.facts_["counts"],
        "columns": model.encoder_.kinds_,
        "left_out": model.encoder_.left_out_,
        "became": model.encoder_.describe(),
        "features": model.encoder_.n_features_,
        "notes": trained.notes,
        "seconds": trained.seconds,
        "embedding_seconds": trained.embedding_seconds,
    }


def show_training(trained: "Trained", name: str) -> None:
    """Print the result for people; ``name`` is that of the table."""
    model = trained.model
    facts, encoder = model.facts_, model.encoder_
    _fact(name, f"{facts['rows']:,} rows")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(encoder.kinds_.values()).items())
    _fact("columns", f"{kinds} → {encoder.n_features_:,} features")
    for embedder in encoder.embedders_:
        print_line(f"{'embedder':<11} {embedder}")  # a path, to be copied
    _first("", [f"{column!r} {became}" for column, became in encoder.describe().items()], _SHOWN_COLUMNS)
    _first("note", trained.notes)
    _show_labels(facts)
    _fact("trained", f"{facts['method']} on {facts['training_rows']:,} rows in {trained.seconds:.1f} s")
    if encoder.embedders_:
        _fact("", f"and {trained.embedding_seconds:.1f} s for embedding")
    if facts["method"] == "auto":
        _show_members(model.estimator_.history_)
    _show_comparison(facts["held_out"], calibrated=facts["calibration"] is not None)
    _show_sets(facts["sets"], facts["calibration"])


def _fact(name: str, value: str) -> None:
    """Print one line of a list of facts."""
    print_prose(f"{name:<11} {value}")


def _first(name: str, values: list[str], shown: int = _SHOWN) -> None:
    for value in values[:shown]:
        _fact(name, value)
    if len(values) > shown:
        _fact(name, f"… and {len(values) - shown:,} more; --json has them all")


def _show_labels(facts: dict[str, Any]) -> None:
    """Show how many labels there are, the most and the least frequent one, and what a reviewer decided."""
    ranked = sorted(facts["counts"].items(), key=lambda pair: (-pair[1], pair[0]))
    ends = [f"{label!r} ({count:,} rows)" for label, count in (ranked[0], ranked[-1])]
    without = f"; rows without a tag: {facts['rows_without_tag']:,}" if facts["rows_without_tag"] else ""
    _fact("labels", f"{len(ranked):,}, from {ends[0]} to {ends[1]}{without}")
    if (decided := facts["decisions"]) is not None:
        elsewhere = f"; {decided['elsewhere']:,} about rows that are not here" if decided["elsewhere"] else ""
        _fact("decisions", f"{decided['accepted']:,} accepted, {decided['rejected']:,} rejected{elsewhere}")


def _show_members(history: Any) -> None:
    """Show the members of a combination, those that count most first, and why no more were tried."""
    total, lines = sum(record["weight"] for record in history) or 1.0, []
    for record in sorted(history, key=lambda record: -record["weight"]):
        likelihood = f", log-likelihood {record['log_likelihood']:.3f}" if "log_likelihood" in record else ""
        share = f"{record['weight'] / total:4.0%} of the weight"
        lines.append(f"{record['method']:<10} {share}{likelihood}, {record['seconds']:.1f} s")
    _first("member", lines)
    if history.facts["stopped"] == "time_budget":
        _fact("note", f"time was up after {len(history)} members; --budget SECONDS gives more, and may rank better")


def _show_comparison(held_out: dict[str, Any] | None, *, calibrated: bool) -> None:
    """Show how this and simpler methods rank tags that training did not see, and warn if there is little between."""
    from onepos.table.facts import BARELY, RECALL_AT

    if held_out is None:
        _fact("held out", "nothing, so there is no score")
        return
    unseen = ", each predicted by models that did not see it" if held_out["out_of_fold"] else ""
    before = " before calibration" if calibrated else ""
    _fact("held out", f"{held_out['rows']:,} rows{unseen}; mean reciprocal rank of the tag{before}:")
    for method, scores in held_out["methods"].items():
        _fact("", f"{method:<10} {scores['reciprocal_rank']:.3f}, log-likelihood {scores['log_likelihood']:.3f}")
    recalls = {k: held_out[f"recall_at_{k}"] for k in RECALL_AT if f"recall_at_{k}" in held_out}
    if recalls:
        shares = [f"{'first' if k == 1 else f'among the first {k}'} in {share:.0%}" for k, share in recalls.items()]
        _fact("", f"the tag is {', '.join(shares)} of the rows")
    if held_out["barely_beats_frequency"]:
        _fact("WARNING", BARELY)


def _show_sets(sets: dict[str, Any], calibration: dict[str, Any] | None) -> None:
    """Show how large the sets of labels are, and where that comes from."""
    if calibration is not None:
        _fact(
            "calibrated",
            f"on {calibration['rows']:,} rows with {calibration['labels_per_row']:.2f} labels each; the model expected "
            f"{calibration['expected_before']:.2f} and now {calibration['expected_after']:.2f}; sets have "
            f"{calibration['set_size']:.2f}" + (f"; {m:g} were asked for" if (m := sets["n_positives"]) else ""),
        )
        return
    guess = ". This number is a guess: give the true mean with --n-positives M, or complete rows with --sample"
    why = guess if sets["guessed"] else f"; {sets['n_positives']:g} were asked for"
    _fact("sets", f"{sets['mean_size']:.2f} labels per row{why}")

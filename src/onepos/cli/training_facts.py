"""What is printed about a training: for people, and as JSON."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from onepos._utils.validation import shorten
from onepos.cli.output import print_line, print_prose

if TYPE_CHECKING:
    from onepos.cli.fit import Trained

#: Notes, and names of columns that became the same; the least share of the weight of a member that is named.
_SHOWN, _SHOWN_ALIKE, _LEAST_SHARE = 6, 4, 0.05


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


def show_training(trained: "Trained", name: str, *, verbose: bool) -> None:
    """Print the result for people: what was read, how good the ranking is, how large the sets are.

    ``name`` is that of the table. ``verbose`` also lists every column, the members of auto and how each simpler method
    ranks.
    """
    model = trained.model
    facts, encoder = model.facts_, model.encoder_
    _fact(name, f"{facts['rows']:,} rows")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(encoder.kinds_.values()).items())
    _fact("columns", f"{kinds} → {encoder.n_features_:,} features")
    for embedder in encoder.embedders_:
        print_line(f"{'embedder':<11} {embedder}")  # a path, to be copied
    became = encoder.describe()
    for line in [f"{column!r} {what}" for column, what in became.items()] if verbose else _alike(became):
        _fact("", line)
    _first("note", trained.notes)
    _show_labels(facts)
    _fact("trained", f"{facts['method']} on {facts['training_rows']:,} rows in {trained.seconds:.1f} s")
    if encoder.embedders_:
        _fact("", f"and {trained.embedding_seconds:.1f} s for embedding")
    if facts["method"] == "auto":
        _show_members(model.estimator_.history_, verbose=verbose)
    _show_verdict(facts, calibrated=facts["calibration"] is not None)
    if verbose and facts["held_out"] is not None:
        _show_methods(facts["held_out"]["methods"])
    _show_sets(facts)


def _alike(became: dict[str, str]) -> list[str]:
    """Return a line for each column; columns that became the same share one if there are many."""
    groups: dict[str, list[str]] = {}
    for column, what in became.items():
        groups.setdefault(what, []).append(column)
    return [
        f"{shorten(map(repr, columns), _SHOWN_ALIKE)}{' each' if len(columns) > 1 else ''} {what}"
        for what, columns in groups.items()
    ]


def _fact(name: str, value: str) -> None:
    """Print one line of a list of facts."""
    print_prose(f"{name:<11} {value}")


def _first(name: str, values: list[str]) -> None:
    for value in values[:_SHOWN]:
        _fact(name, value)
    if len(values) > _SHOWN:
        _fact(name, f"… and {len(values) - _SHOWN:,} more; --json has them all")


def _show_labels(facts: dict[str, Any]) -> None:
    """Show how many labels there are, the most and the least frequent one, and what a reviewer decided."""
    ranked = sorted(facts["counts"].items(), key=lambda pair: (-pair[1], pair[0]))
    ends = [f"{label!r} ({count:,} row{'s' * (count != 1)})" for label, count in (ranked[0], ranked[-1])]
    without = f"; rows without a tag: {facts['rows_without_tag']:,}" if facts["rows_without_tag"] else ""
    _fact("labels", f"{len(ranked):,}, from {ends[0]} to {ends[1]}{without}")
    if (decided := facts["decisions"]) is not None:
        elsewhere = f"; {decided['elsewhere']:,} about rows that are not here" if decided["elsewhere"] else ""
        complete = f"; complete rows: {decided['complete']:,}" if decided["complete"] else ""
        _fact("decisions", f"{decided['accepted']:,} accepted, {decided['rejected']:,} rejected{complete}{elsewhere}")


def _show_members(history: Any, *, verbose: bool) -> None:
    """Show the members of a combination, those that count most first, and why no more were tried."""
    total, lines = sum(record["weight"] for record in history) or 1.0, []
    for record in sorted(history, key=lambda record: -record["weight"]):
        likelihood = f", log-likelihood {record['log_likelihood']:.3f}" if "log_likelihood" in record else ""
        share = f"{record['weight'] / total:4.0%} of the weight"
        if verbose:
            lines.append(f"{record['method']:<10} {share}{likelihood}, {record['seconds']:.1f} s")
        elif record["weight"] >= _LEAST_SHARE * total:
            lines.append(f"{record['method']} {record['weight'] / total:.0%}")
    if verbose:
        _first("member", lines)
    else:
        _fact("", f"weights: {', '.join(lines)}")
    if history.facts["stopped"] == "time_budget":
        _fact("note", f"time was up after {len(history)} members. A larger --budget may improve the ranking.")


def _show_verdict(facts: dict[str, Any], *, calibrated: bool) -> None:
    """Say in one sentence how this and simpler methods rank tags that training did not see; warn if that is little."""
    from onepos.table.facts import BARELY, BASELINE, FREQUENCY

    held_out = facts["held_out"]
    if held_out is None:
        _fact("verdict", "None: no rows were held out, so nothing is known about the ranking.")
        return
    methods, k = held_out["methods"], 3 if len(facts["counts"]) > 5 else 1
    shares = {method: f"{scores[f'recall_at_{k}']:.0%}" for method, scores in methods.items()}
    others = [
        f"{title}: {shares[method]}"
        for method, title in ((FREQUENCY, "by frequency alone"), (BASELINE, "logistic regression"))
        if method in shares and method != facts["method"]
    ]
    rows = f"{held_out['rows']:,} held-out rows" + (" (each row once, in turn)" if held_out["out_of_fold"] else "")
    place = "is the first suggestion" if k == 1 else f"is among the first {k} suggestions"
    before = "Before calibration: on" if calibrated else "On"
    beside = f" ({', '.join(others)})" if others else ""
    _fact("verdict", f"{before} {rows}, the given tag {place} in {shares[facts['method']]} of cases{beside}.")
    if held_out["barely_beats_frequency"]:
        _fact("WARNING", BARELY)


def _show_methods(methods: dict[str, dict[str, float]]) -> None:
    """Show how each method ranks the given tags of held-out rows."""
    _fact(
        "held out",
        "mean reciprocal rank of the given tag, its log-likelihood, and how often it is in the first 1, 3, 5",
    )
    for method, scores in methods.items():
        recalls = ", ".join(f"{scores[f'recall_at_{k}']:.0%}" for k in (1, 3, 5))
        _fact("", f"{method:<10} {scores['reciprocal_rank']:.3f}, {scores['log_likelihood']:.3f}, {recalls}")


def _show_sets(facts: dict[str, Any]) -> None:
    """Show how large the sets of suggested tags are, and where that comes from."""
    sets, calibration = facts["sets"], facts["calibration"]
    wanted = sets["n_positives"]
    if calibration is not None:
        _fact(
            "calibrated",
            f"On {calibration['rows']:,} rows with {calibration['labels_per_row']:.2f} labels each. The model expected "
            f"{calibration['expected_before']:.2f} and now {calibration['expected_after']:.2f}. Sets have "
            f"{calibration['set_size']:.2f}" + (f"; {wanted:g} were asked for." if wanted else "."),
        )
    elif sets["guessed"]:
        _fact(
            "sets",
            f"{sets['mean_size']:.2f} labels per row. This number is a guess: give the true mean with --n-positives M, "
            "or complete rows with --sample.",
        )
    elif facts["held_out_rows"]:
        _fact("sets", f"{sets['mean_size']:.2f} labels per row on held-out rows; {wanted:g} were asked for.")
    else:
        _fact(
            "sets",
            f"New rows get about {wanted:g} labels, as asked for. Training rows get {sets['mean_size']:.2f}: the "
            "model has seen their tags.",
        )

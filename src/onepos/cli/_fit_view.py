"""What training prints: what was read, how well held-out tags are ranked, what to do next."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from onepos.cli._output import print_line
from onepos.cli._table_training import Trained

if TYPE_CHECKING:
    from onepos.columns import TableModel

_KINDS = {"number": "numbers", "boolean": "yes/no", "category": "categories", "text": "text"}
_SHOWN = 6


def show_training(trained: Trained, data: Path, out: Path | None) -> None:
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
    fact("trained", f"{facts['method']} on {facts['training_rows']:,} rows in {trained.seconds:.1f} s")
    fact("held out", _held_out(trained.model))
    if out is not None:
        fact("model", f"{out} ({_size(out)})")
        print_line(f"Next: onepos predict {out} {data} --out predictions.csv")


def fact(name: str, value: str) -> None:
    """Print one line of a list of facts; not in a table, which would break file names."""
    print_line(f"{name:<11} {value}")


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


def _held_out(model: "TableModel") -> str:
    scores = model.facts_["held_out"]
    if scores is None:
        return "nothing, so there is no score"
    return (
        f"{model.facts_['held_out_rows']:,} rows: mean reciprocal rank of their tag {scores['reciprocal_rank']:.3f} "
        f"(ranked by frequency alone: {scores['reciprocal_rank_by_frequency']:.3f})"
    )

"""What the model file of a ``TableModel`` holds beside its classifier.

To store one more fact, add a line to ``TABLE`` or ``ENCODER``. A new kind of column needs a rule in ``COLUMN``.
"""

from typing import Any

from onepos.persistence import rules
from onepos.persistence.rules import Array, Kind, Part, Rule, check_json, one_of
from onepos.table.columns import FittedColumn, FlagColumn, NumberColumn
from onepos.table.dates import FORMATS, DateColumn
from onepos.table.encoder import OF_KIND
from onepos.table.kinds import IMAGE, TEXT
from onepos.table.measures import MeasureColumn
from onepos.table.words import HASHED, BagColumn, CategoryColumn, TextColumn


def _is_fingerprint(value: Any) -> bool:
    """Whether a value may be the hash of an embedder, or its vector of a sample."""
    return isinstance(value, str) or (isinstance(value, list) and all(map(rules.KINDS["finite"].fits, value)))


ENCODER: Rule = {
    "settings": {
        "text categories drop": ["text"],
        "max_categories max_values?1 max_terms": "count",
        "image?1": (None, "text"),
    },
    "kinds": {"*": one_of(IMAGE, *OF_KIND)},
    "left_out": {"*": "text"},
    "columns": ["any"],  # see COLUMN
    "embedded?1": [
        {
            "columns": "texts",
            "pictures own": "truth",
            "name": "text",
            "fingerprint": Kind("a text or a list of finite numbers", _is_fingerprint),
            "factor": "positive",
            "mean": ["finite"],
        }
    ],
}
#: What is stored of a column of each class, beside arrays.
COLUMN: dict[type[FittedColumn], Rule] = {
    NumberColumn: {"fill shift": "finite", "factor": "positive"},
    FlagColumn: {"fill shift": "finite", "factor": "positive"},
    CategoryColumn: {"values": "texts"},
    BagColumn: {"values": "texts", "sign": "text", "n_found": "count", "n_hashed": "count", "length": "not negative"},
    TextColumn: {"terms": "texts", "length": "not negative"},
    DateColumn: {"formats": [one_of(*FORMATS)], "first last mean": "finite", "spread": "positive"},
    MeasureColumn: {"units": "texts", "means": ["finite"], "spreads": ["positive"], "decimal": one_of(".", ",")},
}

_TUNING: Rule = {
    "criterion stopped": "text",
    "score": (None, "measured"),
    "chosen": {"*": "any"},
    "trials": [
        {"settings": {"*": "any"}, "state": "text", "score epochs seconds": (None, "measured"), "error": (None, "text")}
    ],
}
_HELD_OUT: Rule = {
    "rows?1": "count",
    "out_of_fold?1 barely_beats_frequency?1": "truth",
    "methods?": {"*": {"*": "measured"}},  # a model of format 1 that was saved again has none
    "reciprocal_rank *": "measured",
}
TABLE: Rule = {
    "labels": ["text"],
    "label id separator?1": (None, "text"),
    "at_least_one?1": "truth",
    "encoder": ENCODER,
    "facts": {
        "method": "text",
        "rows rows_without_tag training_rows held_out_rows": "count",
        "counts": {"*": "count"},
        "decisions": (None, {"accepted rejected elsewhere": "count"}),
        "notes": ["text"],
        "held_out": (None, _HELD_OUT),
        "sets?1": (None, {"mean_size": "measured", "n_positives": (None, "positive"), "guessed": "truth"}),
        "tuning": (None, _TUNING),
        "calibration": (None, {"rows": "count", "labels_per_row expected_before expected_after slope": "measured"}),
    },
}


def check_columns(part: Part) -> None:
    """Check that the columns of a table fit together, and give the features of the classifier."""
    facts, kinds = part.facts, part.facts["kinds"]
    expected: dict[str, Array] = {}
    for j, about in enumerate(facts["columns"]):
        place = f"columns.{j}"
        kind = about.get("kind") if isinstance(about, dict) else None
        if kind not in OF_KIND:
            raise part.wrong(f"{place}.kind", f"one of {', '.join(OF_KIND)}", kind)
        rule = {"kind name": "text", "weight": "not negative"} | COLUMN[OF_KIND[kind]]
        check_json(rule, about, f"{part.path}.{place}", part.version)
        if kind == TEXT:
            expected[f"{place}.idf"] = Array(f"terms.{j}", "f8", 0)
    part.expect(expected)
    names = [about["name"] for about in facts["columns"]]
    used = [name for name, kind in kinds.items() if kind != IMAGE and (kind != TEXT or facts["settings"]["max_terms"])]
    if sorted(names) != sorted(used):
        raise part.wrong("columns", f"the columns {', '.join(used)}", names)
    n_features = sum(_n_features(part, f"columns.{j}", about) for j, about in enumerate(facts["columns"]))
    for j, embedded in enumerate(facts["embedded"]):
        names = [name for name, kind in kinds.items() if kind == (IMAGE if embedded["pictures"] else TEXT)]
        if embedded["columns"] != names or not names:
            raise part.wrong(f"embedded.{j}.columns", f"the columns {', '.join(names)}", embedded["columns"])
        n_features += len(embedded["mean"])
    if n_features != part.sizes["features"]:
        raise part.wrong("kinds", f"columns of {part.sizes['features']:,} features", f"{n_features:,} features")


def _n_features(part: Part, place: str, about: dict[str, Any]) -> int:
    """Check that the fields of a column fit together; return its number of features."""
    made = OF_KIND[about["kind"]]
    if made is MeasureColumn and not len(about["units"]) == len(about["means"]) == len(about["spreads"]):
        raise part.wrong(place, "as many means and spreads as units", about)
    if made is BagColumn and about["n_hashed"] not in (0, HASHED):
        raise part.wrong(f"{place}.n_hashed", f"0 or {HASHED}", about["n_hashed"])
    fields = {name: value for name, value in about.items() if name != "kind"}
    if made is TextColumn:
        fields["idf"] = part.arrays[f"{place}.idf"]
        if len(fields["terms"]) != len(fields["idf"]):
            raise part.wrong(f"{place}.terms", f"{len(fields['idf']):,} words, as many as weights", fields["terms"])
    column = made(**fields)
    if part.facts["kinds"][column.name] != column.kind:
        raise part.wrong(f"{place}.kind", part.facts["kinds"][column.name], column.kind)
    return column.n_features

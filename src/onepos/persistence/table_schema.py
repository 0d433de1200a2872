"""What the model file of a ``TableModel`` holds beside its classifier.

To store one more fact, add a line to ``TABLE`` or ``ENCODER``. A new kind of column needs a rule in ``ENCODER`` and its
number of features in ``_n_features``. To store one more array, add it to ``expected`` in ``check_columns``.
"""

import json
from typing import Any

from onepos.persistence import rules
from onepos.persistence.rules import Array, Kind, Part, Rule, check_json, one_of
from onepos.table.encoder import KINDS
from onepos.table.features import HASHED, BagColumn, CategoryColumn, FittedColumn, TextColumn
from onepos.table.kinds import BOOLEAN, IMAGE, NUMBER
from onepos.table.measures import FORMATS, DateColumn, MeasureColumn


def _is_fingerprint(value: Any) -> bool:
    """Whether a value may be the hash of an embedder, or its vector of a sample."""
    return isinstance(value, str) or (isinstance(value, list) and all(map(rules.KINDS["finite"].fits, value)))


ENCODER: Rule = {
    "settings": {
        "text categories drop": ["text"],
        "max_categories max_values?1 max_terms": "count",
        "image?1": (None, "text"),
    },
    "kinds": {"*": one_of(NUMBER, BOOLEAN, IMAGE, *(kind for column in KINDS for kind in column.kinds))},
    "left_out": {"*": "text"},
    "numbers": {"names": ["text"], "boolean": ["truth"]},
    "weights?1": ["not negative"],
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
    "categories": {"*": "texts"},
    "bags?1": {"*": ["any"]},  # [values, sign, n_found, n_hashed]
    "text?1": {"*": "any"},  # words and weights are arrays
    "dates?1": {"*": {"formats": [one_of(*FORMATS)], "first last mean": "finite", "spread": "positive"}},
    "measures?1": {"*": {"units": "texts", "means": ["finite"], "spreads": ["positive"], "decimal": one_of(".", ",")}},
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
    numbers = [name for name, kind in kinds.items() if kind in (NUMBER, BOOLEAN)]
    if facts["numbers"] != {"names": numbers, "boolean": [kinds[name] == BOOLEAN for name in numbers]}:
        raise part.wrong("numbers", "the columns of numbers, in their order", facts["numbers"])
    n_features, n_blocks, n_texts = len(numbers), 1, 0
    for column in KINDS:
        used = column is not TextColumn or facts["settings"]["max_terms"]
        names = [name for name, kind in kinds.items() if kind in column.kinds and used]
        stored = facts.get(column.key, dict.fromkeys(names) if column is TextColumn else {})
        if list(stored) != names:
            raise part.wrong(column.key, f"the columns {', '.join(names) or 'of no name'}", stored)
        n_blocks += len(names)
        n_texts += len(names) if column is TextColumn else 0
        n_features += sum(_n_features(part, column, name, stored[name]) for name in names)
    expected = {name: Array(f"{len(numbers)}", "f8") for name in ("fill", "shift", "factor")}
    for j in range(n_texts):
        expected[f"text.{j}.terms"] = Array(f"letters.{j}", "u1")
        expected[f"text.{j}.weights"] = Array(f"terms.{j}", "f8", 0)
    part.expect(expected)
    for j in range(n_texts):
        terms, n_weights = json.loads(part.arrays[f"text.{j}.terms"].tobytes().decode()), part.sizes[f"terms.{j}"]
        check_json("texts", terms, f"{part.path}.text.{j}.terms", part.version)
        if len(terms) != n_weights:
            raise part.wrong(f"text.{j}.terms", f"{n_weights:,} words, as many as weights", terms)
        n_features += len(terms)
    for j, embedded in enumerate(facts.get("embedded", [])):
        wanted = (IMAGE,) if embedded["pictures"] else TextColumn.kinds
        names = [name for name, kind in kinds.items() if kind in wanted]
        if embedded["columns"] != names or not names:
            raise part.wrong(f"embedded.{j}.columns", f"the columns {', '.join(names)}", embedded["columns"])
        n_features += len(embedded["mean"])
    if len(facts.get("weights", [])) not in (0, n_blocks):
        raise part.wrong("weights", f"{n_blocks:,} numbers", facts["weights"])
    if n_features != part.sizes["features"]:
        raise part.wrong("kinds", f"columns of {part.sizes['features']:,} features", f"{n_features:,} features")


def _n_features(part: Part, column: type[FittedColumn], name: str, stored: Any) -> int:
    """Check that the parts of a column fit together; return its number of features, without the words of a text."""
    place = f"{column.key}.{name}"
    if column is CategoryColumn:
        return len(stored)
    if column is DateColumn:
        return DateColumn.n_features
    if column is MeasureColumn:
        if not len(stored["units"]) == len(stored["means"]) == len(stored["spreads"]):
            raise part.wrong(place, "as many means and spreads as units", stored)
        return 2 * len(stored["units"])
    if column is BagColumn:
        if len(stored) != 4 or stored[3] not in (0, HASHED):
            raise part.wrong(place, f"values, the sign between them, their number, and 0 or {HASHED}", stored)
        for rule, value in zip(("texts", "text", "count", "count"), stored, strict=True):
            check_json(rule, value, f"{part.path}.{place}", part.version)
        return len(stored[0]) + 2 + int(stored[3])
    return 0

"""What the model file of a ``TableModel`` holds beside its classifier.

To store one more fact, add a line to ``TABLE`` or ``ENCODER``. A new kind of column needs a rule in ``COLUMNS`` and its
number of features in ``_n_features``. To store one more array, add it to ``expected`` in ``check_columns``.
"""

import json
from typing import Any

from onepos.persistence.rules import (
    ANY,
    COUNT,
    FINITE,
    MEASURED,
    NOT_NEGATIVE,
    POSITIVE,
    TEXTUAL,
    TRUTH,
    Array,
    Part,
    Place,
    Rule,
    by_name,
    listed,
    one_of,
    optional,
    record,
)
from onepos.table.encoder import KINDS
from onepos.table.features import HASHED, BagColumn, CategoryColumn, FittedColumn, TextColumn
from onepos.table.kinds import BOOLEAN, IMAGE, NUMBER
from onepos.table.measures import FORMATS, DateColumn, MeasureColumn


def fingerprint(place: Place, value: Any) -> None:
    """Rule of the fingerprint of an embedder: a hash, or the vector of a sample."""
    (TEXTUAL if isinstance(value, str) else listed(FINITE))(place, value)


COLUMNS: dict[str, Rule] = {
    "categories": listed(TEXTUAL, distinct=True),
    "bags": listed(ANY),  # [values, sign, n_found, n_hashed]
    "text": optional(ANY),  # null: words and weights are arrays
    "dates": record(
        {"formats": listed(one_of(*FORMATS)), "first": FINITE, "last": FINITE, "mean": FINITE, "spread": POSITIVE}
    ),
    "measures": record({"units": listed(TEXTUAL, distinct=True), "means": listed(FINITE), "spreads": listed(POSITIVE)}),
}
ENCODER = record(
    {
        "settings": record(
            {
                "text": listed(TEXTUAL),
                "categories": listed(TEXTUAL),
                "drop": listed(TEXTUAL),
                "max_categories": COUNT,
                "max_values": COUNT,
                "max_terms": COUNT,
                "image": optional(TEXTUAL),
            },
            older=("max_values", "image"),
        ),
        "kinds": by_name(one_of(NUMBER, BOOLEAN, IMAGE, *(kind for column in KINDS for kind in column.kinds))),
        "left_out": by_name(TEXTUAL),
        "numbers": record({"names": listed(TEXTUAL), "boolean": listed(TRUTH)}),
        "weights": listed(NOT_NEGATIVE),
        "embedded": listed(
            record(
                {
                    "columns": listed(TEXTUAL, distinct=True),
                    "pictures": TRUTH,
                    "name": TEXTUAL,
                    "own": TRUTH,
                    "fingerprint": fingerprint,
                    "factor": POSITIVE,
                    "mean": listed(FINITE),
                }
            )
        ),
        **{key: by_name(rule) for key, rule in COLUMNS.items()},
    },
    older=("weights", "embedded", *(column.key for column in KINDS if column is not CategoryColumn)),
)

TUNING = record(
    {
        "criterion": TEXTUAL,
        "score": optional(MEASURED),
        "stopped": TEXTUAL,
        "chosen": by_name(ANY),
        "trials": listed(
            record(
                {
                    "settings": by_name(ANY),
                    "score": optional(MEASURED),
                    "epochs": optional(MEASURED),
                    "seconds": optional(MEASURED),
                    "state": TEXTUAL,
                    "error": optional(TEXTUAL),
                }
            )
        ),
    }
)

TABLE = record(
    {
        "labels": listed(TEXTUAL),
        "label": optional(TEXTUAL),
        "id": optional(TEXTUAL),
        "separator": optional(TEXTUAL),
        "at_least_one": TRUTH,
        "encoder": ENCODER,
        "facts": record(
            {
                "method": TEXTUAL,
                "rows": COUNT,
                "rows_without_tag": COUNT,
                "training_rows": COUNT,
                "held_out_rows": COUNT,
                "counts": by_name(COUNT),
                "decisions": optional(record({"accepted": COUNT, "rejected": COUNT, "elsewhere": COUNT})),
                "notes": listed(TEXTUAL),
                "held_out": optional(
                    record(
                        {
                            "rows": COUNT,
                            "out_of_fold": TRUTH,
                            "methods": by_name(by_name(MEASURED)),
                            "barely_beats_frequency": TRUTH,
                            "reciprocal_rank": MEASURED,
                        },
                        older=("rows", "out_of_fold", "barely_beats_frequency"),
                        maybe=("methods",),  # a model of format 1 that was saved again has none
                        rest=MEASURED,
                    )
                ),
                "sets": optional(record({"mean_size": MEASURED, "n_positives": optional(POSITIVE), "guessed": TRUTH})),
                "tuning": optional(TUNING),
                "calibration": optional(
                    record(
                        {
                            "rows": COUNT,
                            "labels_per_row": MEASURED,
                            "expected_before": MEASURED,
                            "expected_after": MEASURED,
                            "slope": MEASURED,
                        }
                    )
                ),
            },
            older=("sets",),
        ),
    },
    older=("separator", "at_least_one"),
)


def check_columns(part: Part) -> None:
    """Check that the columns of a table fit together, and give the features of the classifier."""
    facts, kinds = part.facts, part.facts["kinds"]
    numbers = [name for name, kind in kinds.items() if kind in (NUMBER, BOOLEAN)]
    boolean = [kinds[name] == BOOLEAN for name in numbers]
    if (facts["numbers"]["names"], facts["numbers"]["boolean"]) != (numbers, boolean):
        raise part.place.at("numbers").wrong("the columns of numbers, in their order", facts["numbers"])
    n_features, n_blocks = len(numbers), 1
    expected = {name: Array(f"{len(numbers)}", "f8") for name in ("fill", "shift", "factor")}
    for column in KINDS:
        used = column is not TextColumn or facts["settings"]["max_terms"]
        names = [name for name, kind in kinds.items() if kind in column.kinds and used]
        stored = facts.get(column.key, dict.fromkeys(names) if column is TextColumn else {})
        if list(stored) != names:
            raise part.place.at(column.key).wrong(f"the columns {', '.join(names) or 'of no name'}", stored)
        n_blocks += len(names)
        n_features += sum(_n_features(column, part.place.at(f"{column.key}.{name}"), stored[name]) for name in names)
        if column is TextColumn:
            n_texts = len(names)
    for j in range(n_texts):
        expected[f"text.{j}.terms"] = Array(f"letters.{j}", "u1")
        expected[f"text.{j}.weights"] = Array(f"terms.{j}", "f8", 0)
    part.expect(expected)
    for j in range(n_texts):
        place, terms = part.place.at(f"text.{j}.terms"), json.loads(part.arrays[f"text.{j}.terms"].tobytes().decode())
        listed(TEXTUAL, distinct=True)(place, terms)
        if len(terms) != part.sizes[f"terms.{j}"]:
            raise place.wrong(f"{part.sizes[f'terms.{j}']:,} words, as many as weights", terms)
        n_features += len(terms)
    of_kind = {False: TextColumn.kinds, True: (IMAGE,)}
    for j, embedded in enumerate(facts.get("embedded", [])):
        names = [name for name, kind in kinds.items() if kind in of_kind[embedded["pictures"]]]
        if embedded["columns"] != names or not names:
            raise part.place.at(f"embedded.{j}.columns").wrong(f"the columns {', '.join(names)}", embedded["columns"])
        n_features += len(embedded["mean"])
    if len(facts.get("weights", [])) not in (0, n_blocks):
        raise part.place.at("weights").wrong(f"{n_blocks:,} numbers", facts["weights"])
    if n_features != part.sizes["features"]:
        raise part.place.wrong(f"columns of {part.sizes['features']:,} features", f"{n_features:,} features")


def _n_features(column: type[FittedColumn], place: Place, stored: Any) -> int:
    """Check that the parts of a column fit together; return its number of features, without the words of a text."""
    if column is CategoryColumn:
        return len(stored)
    if column is DateColumn:
        return DateColumn.n_features
    if column is MeasureColumn:
        if not len(stored["units"]) == len(stored["means"]) == len(stored["spreads"]):
            raise place.wrong("as many means and spreads as units", stored)
        return 2 * len(stored["units"])
    if column is BagColumn:
        rules: tuple[Rule, ...] = (listed(TEXTUAL, distinct=True), TEXTUAL, COUNT, COUNT)
        if len(stored) != len(rules) or stored[3] not in (0, HASHED):
            raise place.wrong(f"values, the sign between them, their number, and 0 or {HASHED}", stored)
        for rule, value in zip(rules, stored, strict=True):
            rule(place, value)
        return len(stored[0]) + 2 + int(stored[3])
    return 0

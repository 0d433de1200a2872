"""From TOML to a study: every field known, every value checked, errors that name the place."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from onepos.exceptions import StudyError
from onepos.methods.registry import METHODS
from onepos.metrics import METRICS
from onepos.study.cells import known_datasets
from onepos.study.spec import RULES, DataGroup, MethodEntry, Record, Study, Tuning, accepted_parameters

#: A slip of the finger must not plan a billion cells.
_MOST_TRIALS = 10_000
_SECTIONS = {"study", "data", "common", "tuning", "method", "record"}
_STUDY_FIELDS = {"name", "description", "trials", "seed", "fractions", "positive_rule", "rules", "metric"}


def shipped_studies() -> dict[str, str]:
    """Return the texts of the studies that come with the package, by name."""
    folder = files("onepos.study") / "shipped"
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    }


def read_study(name_or_path: str | Path) -> tuple[Study, str]:
    """Return a study and its text: a shipped one by name, else a TOML file."""
    shipped = shipped_studies()
    if str(name_or_path) in shipped:
        text = shipped[str(name_or_path)]
    else:
        path = Path(name_or_path)
        if not path.is_file():
            raise StudyError(f"no study {str(name_or_path)!r}: give a TOML file or one of {', '.join(shipped)}.")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise StudyError(f"{path} is not a text file in UTF-8.") from error
    return parse_study(text), text


def parse_study(text: str) -> Study:
    """Read a study from TOML.

    Examples
    --------
    >>> study = parse_study('''
    ... [study]
    ... name = "tiny"
    ... trials = 2
    ... [[data]]
    ... sets = ["digit-scenes"]
    ... [[method]]
    ... key = "frequency"
    ... ''')
    >>> study.datasets, len(study.content_hash)
    (('digit-scenes',), 16)
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # besides TOML's own: numbers of thousands of digits, deep nesting
        raise StudyError(f"the study is not valid TOML: {error}.") from error
    _check_plain(content)
    _only(content, _SECTIONS, "the study file")
    head = _table(content, "study")
    _only(head, _STUDY_FIELDS, "[study]")
    common = _table(content, "common")
    groups = [_group(entry) for entry in _tables(content, "data")]
    methods = [_method(entry) for entry in _tables(content, "method")]
    study = Study(
        name=_text(head, "name"),
        description=_text(head, "description", ""),
        trials=_whole(head, "trials", 1, most=_MOST_TRIALS),
        seed=_whole(head, "seed", 0, default=0),
        fractions=_fractions(head.get("fractions", [0.8, 0.1, 0.1])),
        positive_rule=_one_of(head.get("positive_rule", "uniform"), ("uniform", "frequency"), "[study] positive_rule"),
        rules=_rules(_list(head, "rules", ["clean"]), "[study]"),
        metric=_one_of(head.get("metric", "average_precision"), tuple(METRICS), "[study] metric"),
        data=tuple(groups),
        methods=tuple(methods),
        common={name: value for name, value in common.items() if name != "grid"},
        common_grid=_grid(common.get("grid", {}), "[common.grid]"),
        tuning=_tuning(_table(content, "tuning")),
        record=_record(_table(content, "record")),
    )
    _check_whole(study)
    return study


def _check_plain(value: Any) -> None:
    """Refuse dates and times: TOML has them, but no setting is one, and they cannot be hashed with the rest."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_plain(item)
    elif not isinstance(value, str | int | float):
        raise StudyError(f"a study holds numbers, texts, lists and tables; got the {type(value).__name__} {value}.")


def _rules(values: list[Any], where: str) -> tuple[Any, ...]:
    rules = tuple(_one_of(rule, RULES, f"{where} rules") for rule in values)
    if not rules or len(set(rules)) != len(rules):
        raise StudyError(f"{where} rules must be one or more distinct ones of {', '.join(RULES)}; got {values}.")
    return rules


def _check_whole(study: Study) -> None:
    for what, names in (("data set", study.datasets), ("method name", [method.name for method in study.methods])):
        repeated = sorted({name for name in names if list(names).count(name) > 1})
        if repeated:
            raise StudyError(f"{what} given more than once: {', '.join(repeated)}.")
        if not names:
            raise StudyError(f"a study needs at least one {what}.")
    unknown = [name for name in study.datasets if name not in known_datasets()]
    if unknown:
        raise StudyError(f"unknown data sets: {', '.join(unknown)}; known: {', '.join(known_datasets())}.")
    # A misspelt common setting would silently apply to nothing.
    every = set().union(*(accepted_parameters(method.key) for method in study.methods))
    shared = {**study.common, **study.common_grid}
    for group in study.data:
        shared |= group.fixed | group.grid
    shared |= dict.fromkeys(study.tuning.keep_each)
    stray = sorted(set(shared) - every)
    if stray:
        raise StudyError(f"no method of the study has a parameter {', '.join(stray)}.")


def _group(entry: Mapping[str, Any]) -> DataGroup:
    _only(entry, {"sets", "grid", "fixed", "train_fractions", "rules"}, "[[data]]")
    fractions = _list(entry, "train_fractions", [1.0])
    if not fractions or not all(_is_number(value) and 0 < value <= 1 for value in fractions):
        raise StudyError(f"[[data]] train_fractions must be numbers above 0 and up to 1; got {fractions}.")
    return DataGroup(
        sets=_names(entry, "sets"),
        fixed=dict(_table(entry, "fixed")),
        grid=_grid(entry.get("grid", {}), "[data.grid]"),
        train_fractions=tuple(float(value) for value in fractions),
        rules=_rules(_list(entry, "rules", []), "[[data]]") if "rules" in entry else (),
    )


def _method(entry: Mapping[str, Any]) -> MethodEntry:
    _only(entry, {"key", "name", "fixed", "grid", "per_dataset"}, "[[method]]")
    key = _one_of(entry.get("key"), tuple(METHODS), "[[method]] key")
    by_set = _table(entry, "per_dataset")
    method = MethodEntry(
        key=key,
        name=_text(entry, "name", key),
        fixed=dict(_table(entry, "fixed")),
        grid=_grid(entry.get("grid", {}), f"grid of method {key!r}"),
        per_dataset={name: dict(_table(by_set, name)) for name in by_set},
    )
    own = {**method.fixed, **method.grid}
    for values in method.per_dataset.values():
        own |= values
    strange = sorted(set(own) - accepted_parameters(key))
    if strange:
        known = ", ".join(sorted(accepted_parameters(key)))
        raise StudyError(f"method {key!r} has no parameter {', '.join(strange)}; it has: {known}.")
    return method


def _tuning(entry: Mapping[str, Any]) -> Tuning:
    _only(entry, {field.name for field in fields(Tuning)}, "[tuning]")
    return Tuning(
        when=_one_of(entry.get("when", "first-trial"), ("first-trial", "each-trial"), "[tuning] when"),
        each_trial_below=_whole(entry, "each_trial_below", 0, default=0),
        screen_epochs=_whole(entry, "screen_epochs", 0, default=0),
        keep=_whole(entry, "keep", 1, default=1),
        keep_each=_names(entry, "keep_each"),
    )


def _record(entry: Mapping[str, Any]) -> Record:
    _only(entry, {field.name for field in fields(Record)}, "[record]")
    return Record(_names(entry, "test_curve"), _names(entry, "soft_label_change"))


def _fractions(value: Any) -> tuple[float, float, float]:
    listed = isinstance(value, list) and len(value) == 3 and all(_is_number(part) and 0 < part < 1 for part in value)
    if not listed or abs(sum(value) - 1.0) > 1e-9:
        raise StudyError(f"[study] fractions must be three positive numbers that sum to 1; got {value}.")
    return float(value[0]), float(value[1]), float(value[2])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _grid(entry: Any, where: str) -> dict[str, tuple[Any, ...]]:
    if not isinstance(entry, dict) or not all(isinstance(values, list) and values for values in entry.values()):
        raise StudyError(f"{where} must hold lists of values to try, each with at least one.")
    return {name: tuple(values) for name, values in entry.items()}


def _only(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    strange = sorted(set(entry) - known)
    if strange:
        raise StudyError(f"{where} has no field {', '.join(strange)}; it has: {', '.join(sorted(known))}.")


def _table(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = entry.get(name, {})
    if not isinstance(value, dict):
        raise StudyError(f"{name} must be a table of settings; got {value!r}.")
    return value


def _tables(entry: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = entry.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise StudyError(f"{name} must be given as [[{name}]] tables.")
    return value


def _list(entry: Mapping[str, Any], name: str, default: list[Any]) -> list[Any]:
    value = entry.get(name, default)
    if not isinstance(value, list):
        raise StudyError(f"{name} must be a list; got {value!r}.")
    return value


def _names(entry: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = _list(entry, name, [])
    if not all(isinstance(value, str) for value in values):
        raise StudyError(f"{name} must be a list of names in quotes; got {values!r}.")
    return tuple(values)


def _text(entry: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = entry.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise StudyError(f"{name} must be a text; got {value!r}.")
    return value


def _whole(entry: Mapping[str, Any], name: str, minimum: int, default: int | None = None, most: int = 2**63 - 1) -> int:
    value = entry.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise StudyError(f"{name} must be a whole number of at least {minimum}; got {value!r}.")
    if value > most:
        raise StudyError(f"{name} must be at most {most}; got {value}.")
    return value


def _one_of(value: Any, known: tuple[Any, ...], where: str) -> Any:
    if value not in known:
        raise StudyError(f"{where} must be one of {', '.join(known)}; got {value!r}.")
    return value

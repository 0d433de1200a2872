"""From TOML to a study: every field known, every value checked, errors that name the place."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from onepos.datasets._fetch import sha256_of
from onepos.exceptions import DataFileError, StudyError
from onepos.methods.registry import get_method
from onepos.metrics import METRICS
from onepos.study.cells import check_options, known_datasets
from onepos.study.spec import POSITIVE_RULES, RULES, DataGroup, MethodEntry, Record, Study, Tuning, accepted_parameters

#: A slip of the finger must not plan a billion cells.
_MOST_TRIALS = 10_000

#: The file of a data set: where it is, and its sha256.
Place = tuple[str, str]


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
        return parse_study(text), text
    path = Path(name_or_path)
    if not path.is_file():
        raise StudyError(f"no study {str(name_or_path)!r}: give a TOML file or one of {', '.join(shipped)}.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not a text file in UTF-8.") from error
    return parse_study(text, folder=path.parent), text


def parse_study(text: str, *, folder: Path | None = None, places: Mapping[str, Place] | None = None) -> Study:
    """Read a study from TOML.

    Parameters
    ----------
    text : str
    folder : Path, optional
        Where relative paths of data files start; default: the working folder.
    places : mapping, optional
        Data files found before, by name of the data set; these are not looked at again.

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
    _only(content, {"study", "data", "common", "tuning", "method", "record"}, "the study file")
    common = dict(_settings(content.get("common", {}), "common"))
    head: Study = _build(
        Study,
        _settings(content.get("study", {}), "study"),
        "[study]",
        name=_text,
        description=partial(_text, empty=True),
        trials=partial(_whole, least=1, most=_MOST_TRIALS),
        seed=_whole,
        fractions=_fractions,
        positive_rule=partial(_one_of, known=POSITIVE_RULES),
        positive_weights=_weights,
        rules=partial(_distinct, known=RULES),
        metric=partial(_one_of, known=tuple(METRICS)),
    )
    study = replace(
        head,
        data=tuple(_group(entry, folder or Path(), places or {}) for entry in _tables(content, "data")),
        methods=tuple(_method(entry) for entry in _tables(content, "method")),
        common_grid=_grid(common.pop("grid", {}), "[common.grid]"),
        common=common,
        tuning=_build(
            Tuning,
            _settings(content.get("tuning", {}), "tuning"),
            "[tuning]",
            when=partial(_one_of, known=("first-trial", "each-trial")),
            each_trial_below=_whole,
            screen_epochs=_whole,
            keep=partial(_whole, least=1),
            keep_each=_names,
        ),
        record=_build(
            Record,
            _settings(content.get("record", {}), "record"),
            "[record]",
            test_curve=_names,
            soft_label_change=_names,
        ),
    )
    _check_whole(study)
    return study


def _build(kind: Any, entry: Mapping[str, Any], where: str, **checks: Callable[[Any, str], Any]) -> Any:
    """Make a dataclass from a table: each field that is given goes through its check, the others have their default."""
    _only(entry, set(checks), where)
    values = {name: checks[name](value, f"{where} {name}") for name, value in entry.items()}
    for part in fields(kind):
        if part.name not in values and part.default is MISSING and part.default_factory is MISSING:
            # A field that must be given: its check says what it should be. Others are filled in later.
            values[part.name] = checks[part.name](None, f"{where} {part.name}") if part.name in checks else ()
    return kind(**values)


def _group(entry: Mapping[str, Any], folder: Path, places: Mapping[str, Place]) -> DataGroup:
    group: DataGroup = _build(
        DataGroup,
        entry,
        "[[data]]",
        sets=_names,
        file=_text,
        name=_text,
        read=_settings,
        sha256=_text,
        fixed=_settings,
        grid=_grid,
        train_fractions=_shares,
        rules=partial(_distinct, known=RULES),
        positive_rules=partial(_distinct, known=POSITIVE_RULES),
    )
    if not group.file:
        if group.name or group.read or group.sha256:
            raise StudyError("[[data]] name, read and sha256 describe a file; this group has none.")
        unknown = [name for name in group.sets if name not in known_datasets()]
        if unknown:
            raise StudyError(
                f"unknown data sets: {', '.join(unknown)}; known: {', '.join(known_datasets())}. A file is given as "
                "file = in a [[data]] of its own."
            )
        return group
    name = group.name or Path(group.file).stem
    if group.sets or ":" in name or name in known_datasets():
        raise StudyError(
            f"[[data]] has sets or one file, and the name of a file has no colon and is not that of a known data set; "
            f"got file {group.file!r} called {name!r}."
        )
    try:
        check_options(group.file, group.read)
    except (ValueError, DataFileError) as error:
        raise StudyError(f"[[data]] read of {group.file}: {error}") from error
    path, checksum = places.get(name) or _find(folder / group.file)
    if group.sha256 and checksum != group.sha256:
        raise StudyError(
            f"{path} is another file than the study names: sha256 {group.sha256} expected; got {checksum}."
        )
    return replace(group, name=name, file=path, sha256=checksum)


def _find(path: Path) -> Place:
    if not path.is_file():
        raise StudyError(f"no data file {path}: a relative path starts at the study file.")
    return str(path.resolve()), sha256_of(path)


def _method(entry: Mapping[str, Any]) -> MethodEntry:
    method: MethodEntry = _build(
        MethodEntry,
        {"name": entry.get("key"), **entry},
        "[[method]]",
        key=_text,
        name=_text,
        fixed=_settings,
        grid=_grid,
        per_dataset=lambda value, where: {
            name: dict(_settings(settings, name)) for name, settings in _settings(value, where).items()
        },
    )
    try:
        get_method(method.key).load_class()
    except ValueError as error:
        raise StudyError(f"[[method]] key: {error}") from error
    own = set(method.fixed) | set(method.grid)
    strange = sorted(own.union(*method.per_dataset.values()) - accepted_parameters(method.key))
    if strange:
        known = ", ".join(sorted(accepted_parameters(method.key)))
        raise StudyError(f"method {method.key!r} has no parameter {', '.join(strange)}; it has: {known}.")
    return method


def _check_plain(value: Any) -> None:
    """Refuse dates and times: TOML has them, but no setting is one, and they cannot be hashed with the rest."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_plain(item)
    elif not isinstance(value, str | int | float):
        raise StudyError(f"a study holds numbers, texts, lists and tables; got the {type(value).__name__} {value}.")


def _check_whole(study: Study) -> None:
    for what, names in (("data set", study.datasets), ("method name", [method.name for method in study.methods])):
        repeated = sorted({name for name in names if list(names).count(name) > 1})
        if repeated:
            raise StudyError(f"{what} given more than once: {', '.join(repeated)}.")
        if not names:
            raise StudyError(f"a study needs at least one {what}.")
    drawn = {study.positive_rule, *(rule for group in study.data for rule in group.positive_rules)}
    if ("weights" in drawn) != bool(study.positive_weights):
        raise StudyError('[study] positive_weights and the positive rule "weights" belong together; one is missing.')
    # A misspelt common setting would silently apply to nothing.
    shared = {*study.common, *study.common_grid, *study.tuning.keep_each}
    shared = shared.union(*(group.fixed | group.grid for group in study.data))
    stray = sorted(shared.difference(*(accepted_parameters(method.key) for method in study.methods)))
    if stray:
        raise StudyError(f"no method of the study has a parameter {', '.join(stray)}.")


def _only(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    strange = sorted(set(entry) - known)
    if strange:
        raise StudyError(f"{where} has no field {', '.join(strange)}; it has: {', '.join(sorted(known))}.")


def _tables(entry: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = entry.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise StudyError(f"{name} must be given as [[{name}]] tables.")
    return value


# Checks of one value: each returns it as the dataclass holds it, or raises.


def _settings(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StudyError(f"{where} must be a table of settings; got {value!r}.")
    return value


def _grid(value: Any, where: str) -> dict[str, tuple[Any, ...]]:
    if not isinstance(value, dict) or not all(isinstance(values, list) and values for values in value.values()):
        raise StudyError(f"{where} must hold lists of values to try, each with at least one.")
    return {name: tuple(values) for name, values in value.items()}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise StudyError(f"{where} must be a list; got {value!r}.")
    return value


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in _list(value, where)):
        raise StudyError(f"{where} must be a list of names in quotes; got {value!r}.")
    return tuple(value)


def _distinct(value: Any, where: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(_one_of(item, where, known) for item in _list(value, where))
    if not found or len(set(found)) != len(found):
        raise StudyError(f"{where} must be one or more distinct ones of {', '.join(known)}; got {value}.")
    return found


def _one_of(value: Any, where: str, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise StudyError(f"{where} must be one of {', '.join(known)}; got {value!r}.")
    return value


def _text(value: Any, where: str, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise StudyError(f"{where} must be a text; got {value!r}.")
    return value


def _whole(value: Any, where: str, least: int = 0, most: int = 2**63 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise StudyError(f"{where} must be a whole number of at least {least}; got {value!r}.")
    if value > most:
        raise StudyError(f"{where} must be at most {most}; got {value}.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shares(value: Any, where: str) -> tuple[float, ...]:
    if not _list(value, where) or not all(_is_number(share) and 0 < share <= 1 for share in value):
        raise StudyError(f"{where} must be numbers above 0 and up to 1; got {value}.")
    return tuple(map(float, value))


def _fractions(value: Any, where: str) -> tuple[float, float, float]:
    listed = isinstance(value, list) and len(value) == 3 and all(_is_number(part) and 0 < part < 1 for part in value)
    if not listed or abs(sum(value) - 1.0) > 1e-9:
        raise StudyError(f"{where} must be three positive numbers that sum to 1; got {value}.")
    return float(value[0]), float(value[1]), float(value[2])


def _weights(value: Any, where: str) -> dict[str, float]:
    if not isinstance(value, dict) or not value or not all(_is_number(w) and 0 <= w < 1e308 for w in value.values()):
        raise StudyError(f"{where} must be a table of label names and weights, at least 0; got {value!r}.")
    return {name: float(weight) for name, weight in value.items()}

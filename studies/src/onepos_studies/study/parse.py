"""From TOML to a study: fields are checked by their declaration in ``spec``, the whole is checked here."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from onepos._utils.files import sha256_of
from onepos.exceptions import DataFileError
from onepos.methods.registry import get_method
from onepos_studies.exceptions import StudyError
from onepos_studies.study.cells import check_options, known_datasets
from onepos_studies.study.spec import DataGroup, Grid, MethodEntry, Study, StudyFile, accepted_parameters

_FILE: TypeAdapter[StudyFile] = TypeAdapter(StudyFile)
_GRID: TypeAdapter[Grid] = TypeAdapter(Grid)

#: The file of a data set: where it is, and its sha256.
Place = tuple[str, str]


def shipped_studies() -> dict[str, str]:
    """Return the texts of the studies that come with the package, by name."""
    folder = files("onepos_studies.study") / "shipped"
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    }


def read_study(name_or_path: str | Path) -> tuple[Study, str]:
    """Return a study and its text: a shipped one by name, else a TOML file."""
    shipped = shipped_studies()
    if text := shipped.get(str(name_or_path), ""):
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

    Relative paths of data files start at ``folder``, by default the working folder. ``places`` are data files found
    before, by name of the data set; these are not looked at again.

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
    try:
        # As JSON: there a list stands for a tuple, and dates, which are no setting, have no form.
        file = _FILE.validate_json(json.dumps(content))
        common = dict(file.common)
        common_grid = _GRID.validate_python(common.pop("grid", {}))
    except TypeError as error:
        raise StudyError(f"a study holds numbers, texts, lists and tables: {error}.") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "common.grid"
        raise StudyError(f"{place}: {first['msg']}; got {first['input']!r}. See docs/study-file.md.") from error
    study = Study(
        **vars(file.study),
        data=tuple(_group(group, folder or Path(), places or {}) for group in file.data),
        methods=tuple(_method(entry) for entry in file.method),
        common=common,
        common_grid=common_grid,
        tuning=file.tuning,
        record=file.record,
    )
    _check_whole(study)
    return study


def _group(group: DataGroup, folder: Path, places: Mapping[str, Place]) -> DataGroup:
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
    if name not in places and not (folder / group.file).is_file():
        raise StudyError(f"no data file {folder / group.file}: a relative path starts at the study file.")
    path, checksum = places.get(name) or (str((folder / group.file).resolve()), sha256_of(folder / group.file))
    if group.sha256 and checksum != group.sha256:
        raise StudyError(
            f"{path} is another file than the study names: sha256 {group.sha256} expected; got {checksum}."
        )
    return replace(group, name=name, file=path, sha256=checksum)


def _method(entry: MethodEntry) -> MethodEntry:
    method = entry if entry.name else replace(entry, name=f"{entry.key}-full" if entry.complete else entry.key)
    if method.complete != method.name.endswith("-full"):
        raise StudyError(
            f'[[method]] {method.name!r}: names that end with "-full" are those of methods with complete = true, and '
            "only of these. Give another name, or leave it out."
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


def _check_whole(study: Study) -> None:
    for what, names in (("data set", study.datasets), ("method name", [method.name for method in study.methods])):
        repeated = sorted({name for name in names if list(names).count(name) > 1})
        if repeated:
            raise StudyError(f"{what} given more than once: {', '.join(repeated)}.")
        if not names:
            raise StudyError(f"a study needs at least one {what}.")
    # A misspelt common setting would silently apply to nothing.
    shared = {*study.common, *study.common_grid, *study.tuning.keep_each}
    shared = shared.union(*(group.fixed | group.grid for group in study.data))
    stray = sorted(shared.difference(*(accepted_parameters(method.key) for method in study.methods)))
    if stray:
        raise StudyError(f"no method of the study has a parameter {', '.join(stray)}.")

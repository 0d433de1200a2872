"""The units of work: one method on one trial of one data set under one selection rule."""

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onepos._utils.files import known_suffix, sha256_of
from onepos.datasets import make_digit_scenes, make_known_posterior, make_single_positive, split
from onepos.methods.registry import get_method, make_classifier
from onepos.table.encoder import ColumnEncoder
from onepos.table.files import read_table
from onepos.table.formats import READABLE
from onepos.table.tags import LabelColumns
from onepos_studies.datasets import list_datasets, load_dataset, read
from onepos_studies.datasets._load import FORMATS
from onepos_studies.exceptions import StudyError
from onepos_studies.study.spec import Parameters, Rule, Study, accepted_parameters, counted, digest, settings_of

#: Data sets that need no file, and their numbers of rows.
EMBEDDED = {"digit-scenes": 1000, "known-posterior": 1000}

#: For the positive rule "dominance": scores are divided by it. They are near 0 and 1.
_TEMPERATURE = 0.1


class Source(NamedTuple):
    """Where the rows of a data set come from: a registered name, or a file with its checksum and options as JSON."""

    name: str
    file: str = ""
    sha256: str = ""
    read: str = "{}"


class Data(NamedTuple):
    """A data set in memory. ``one_tag``: each row has exactly one label, and the others are unknown, not absent."""

    X: Any
    Y: NDArray[np.uint8]
    label_names: tuple[str, ...]
    text: tuple[str, ...] = ()
    one_tag: bool = False


@dataclass(frozen=True)
class Trial:
    """The parts of a trial. With ``one_tag`` other labels are unknown, and ``Y_test`` is the held-out tag per row."""

    X_train: Any
    Y_train: NDArray[np.uint8]
    observed: NDArray[np.uint8]
    X_val: Any
    Y_val: NDArray[np.uint8]
    observed_val: NDArray[np.uint8]
    X_test: Any
    Y_test: NDArray[np.uint8]
    one_tag: bool = False


def known_datasets() -> list[str]:
    """Return every name that a study may use."""
    return [*EMBEDDED, *_registered().index]


def matches_paper(name: str) -> bool:
    """Tell whether a data set has the paper's features; substitutes, embedded ones and files have others."""
    name = name.partition(":")[0]
    return name in _registered().index and bool(_registered().loc[name, "matches_paper"])


def n_rows(source: Source) -> int:
    """Return the number of rows, for a registered data set without loading it."""
    if source.file:
        return len(data_set(source).Y)
    return EMBEDDED[source.name] if source.name in EMBEDDED else int(_registered().loc[source.name, "instances"])


@lru_cache(maxsize=1)
def _registered() -> Any:
    return list_datasets().set_index("name")


@lru_cache(maxsize=2)
def data_set(source: Source) -> Data:
    """Return a data set with complete labels; the last two are cached for the next cell."""
    if source.file:
        return _read_file(source)
    if source.name == "digit-scenes":
        data: Any = make_digit_scenes(EMBEDDED[source.name], random_state=0)
    elif source.name == "known-posterior":
        data = make_known_posterior(EMBEDDED[source.name], 10, 8, random_state=0)
    else:
        data = load_dataset(source.name)
    names = data.get("label_names") or [f"label{j}" for j in range(data.Y.shape[1])]
    text = data.info["options"].get("text", ()) if "info" in data else ()
    return Data(data.X, data.Y, tuple(names), tuple(text))


def _read_file(source: Source) -> Data:
    """Read a data file of the user's own; rows without a label are left out."""
    path, options = Path(source.file), json.loads(source.read)
    if sha256_of(path) != source.sha256:
        raise StudyError(f"{path} has changed since the study was started: sha256 {source.sha256} expected.")
    if path.suffix.lower() in READABLE:
        data = _read_columns(path, **options)
    else:
        table = read(path, **options)
        data = Data(table.X, table.Y, table.label_names)
    labelled = data.Y.any(axis=1)
    X = data.X[labelled] if labelled.any() else data.X
    return data._replace(X=X, Y=data.Y[labelled], one_tag=bool((data.Y[labelled].sum(axis=1) == 1).all()))


def check_options(file: str, options: Parameters) -> None:
    """Raise ValueError or DataFileError, before anything is read, if a file is not readable with these options."""
    path = Path(file)
    is_table = path.suffix.lower() in READABLE
    known = set(signature(_read_columns if is_table else FORMATS[known_suffix(path, FORMATS)]).parameters) - {"path"}
    strange = sorted(set(options) - known)
    if strange:
        raise ValueError(
            f"a {path.suffix} file takes {', '.join(sorted(known)) or 'nothing'}; got {', '.join(strange)}."
        )
    if is_table:
        columns = LabelColumns(options.get("label"), options.get("labels"), separator=options.get("separator"))
        columns.check(options.get("text", ()))


def _read_columns(
    path: Path,
    *,
    label: str | None = None,
    labels: list[str] | None = None,
    separator: str | None = None,
    text: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
) -> Data:
    columns = LabelColumns(label, labels, separator=separator)
    frame = read_table(path, plain=[*([label] if label else []), *text]).frame
    Y = columns.indicator(frame)
    names = tuple(map(str, Y.columns))
    return Data(frame.drop(columns=[*columns.names, *drop]), (Y.to_numpy() > 0).astype(np.uint8), names, tuple(text))


@lru_cache(maxsize=2)
def load_trial(
    source: str | Source,
    seed: int,
    trial: int,
    fractions: tuple[float, float, float],
    positive_rule: str,
    train_fraction: float,
) -> Trial:
    """Split a data set for a trial and draw its positives; the last two trials are cached for the next cell.

    A training fraction takes the beginning of one random order: smaller parts lie in larger ones, and validation and
    test rows never change.
    """
    data = data_set(Source(source) if isinstance(source, str) else source)
    parts = split(data.X, data.Y, fractions=fractions, random_state=seed + trial)
    n = max(2, round(train_fraction * len(parts.Y_train)))
    X = parts.X_train[:n], parts.X_val, parts.X_test
    if hasattr(data.X, "columns"):  # encoded here: the encoder must not see other rows than those of training
        encoder = ColumnEncoder(text=data.text).fit(X[0])
        X = encoder.transform(X[0]), encoder.transform(X[1]), encoder.transform(X[2])
    options = _drawing(positive_rule, parts, X, n)
    observed, observed_val = (
        make_single_positive(Y, random_state=seed + number + trial, **chosen)
        for Y, number, chosen in zip((parts.Y_train, parts.Y_val), (1000, 2000), options, strict=True)
    )
    return Trial(
        X[0], parts.Y_train[:n], observed[:n], X[1], parts.Y_val, observed_val, X[2], parts.Y_test, data.one_tag
    )


def _drawing(rule: str, parts: Any, X: tuple[Any, Any, Any], n: int) -> list[dict[str, Any]]:
    """Return the arguments of ``make_single_positive`` for training and validation rows."""
    if rule == "dominance":
        from sklearn.linear_model import Ridge

        # How evident a label is: what a linear model of the complete training labels makes of the row.
        model = Ridge().fit(X[0], parts.Y_train[:n].astype(np.float64))
        every = [*model.predict(X[0]), *np.zeros((len(parts.Y_train) - n, parts.Y_train.shape[1]))]
        shared = {"selection": rule, "temperature": _TEMPERATURE}
        return [shared | {"scores": np.array(every)}, shared | {"scores": model.predict(X[1])}]
    return [{"selection": rule}] * 2


@dataclass(frozen=True)
class Cell:
    """Everything that the result of a cell depends on; no cell needs the whole study.

    ``settings`` are tried; there is one when nothing is chosen. ``takes_over`` is the trial whose choice this cell
    uses, or None when it chooses itself. ``file``, ``sha256`` and ``read`` stand for a data file in place of a
    registered data set; where it lies does not count for the hash.
    """

    dataset: str
    method: str
    key: str
    trial: int
    rule: Rule
    train_fraction: float
    seed: int
    fractions: tuple[float, float, float]
    positive_rule: str
    metric: str
    settings: tuple[Parameters, ...]
    screen_epochs: int
    keep: int
    keep_each: tuple[str, ...]
    takes_over: int | None
    test_curve: bool = False
    soft_label_change: bool = False
    file: str = ""
    sha256: str = ""
    read: Parameters = field(default_factory=dict)
    complete: bool = False

    @property
    def sees_all_labels(self) -> bool:
        """Whether the method trains on complete labels: full supervision."""
        return self.complete or bool(get_method(self.key).load_class()._y_is_full)

    @property
    def stops_by_clock(self) -> bool:
        """Whether the method has a limit of time: then its numbers cannot be repeated."""
        models = (make_classifier(self.key, **one) for one in self.settings)
        return any(model.get_params().get("time_budget") is not None for model in models)

    @property
    def id(self) -> str:
        """A file name: what the cell is, in words, and a hash of everything else it depends on."""
        size = "" if self.train_fraction == 1.0 else f"--{self.train_fraction:g}"
        words = f"{self.dataset}--{self.method}--{self.rule}{size}--trial{self.trial}"
        return f"{re.sub(r'[^A-Za-z0-9.+_-]', '_', words)}--{digest(counted(self))[:8]}"

    @property
    def chooser(self) -> tuple[Any, ...]:
        """What identifies the cell whose choice this one takes over."""
        return (self.dataset, self.method, self.rule, self.train_fraction, self.takes_over)

    @property
    def source(self) -> Source:
        """Where the rows come from."""
        return Source(self.dataset.partition(":")[0], self.file, self.sha256, json.dumps(self.read, sort_keys=True))

    def load_trial(self) -> Trial:
        """Return the rows of this cell."""
        protocol = (self.seed, self.trial, self.fractions, self.positive_rule, self.train_fraction)
        return load_trial(self.source, *protocol)


def cells_of(study: Study) -> list[Cell]:
    """Every cell of a study. Cells of one split follow each other, so that what they share is loaded once."""
    groups = {name: group for group in study.data for name in group.names}
    cells = []
    for dataset, group in groups.items():
        name, _, own_rule = dataset.partition(":")
        source = Source(name, group.file, group.sha256, json.dumps(group.read, sort_keys=True))
        few = study.tuning.each_trial_below
        each = study.tuning.when == "each-trial" or bool(few and n_rows(source) < few)
        rules = group.rules or study.rules
        shared: dict[str, Any] = {
            **{name: getattr(study, name) for name in ("seed", "fractions", "metric")},
            **{name: getattr(study.tuning, name) for name in ("screen_epochs", "keep", "keep_each")},
            **{name: getattr(group, name) for name in ("file", "sha256", "read")},
            **{name: dataset in getattr(study.record, name) for name in ("test_curve", "soft_label_change")},
            "positive_rule": own_rule or study.positive_rule,
        }
        for trial, fraction, method in product(range(study.trials), group.train_fractions, study.methods):
            settings = tuple(settings_of(study, group, method, dataset))
            same: dict[str, Any] = {
                "dataset": dataset,
                "method": method.name,
                "key": method.key,
                "trial": trial,
                "train_fraction": fraction,
                "settings": settings,
                "takes_over": None if each or len(settings) == 1 or trial == 0 else 0,
                "complete": method.complete,
            }
            cells += [Cell(rule=rule, **same, **shared) for rule in rules]
    return cells


def run_together(cells: list[Cell]) -> list[list[Cell]]:
    """Group the cells that one process runs: those that differ in their rule only and can share fits."""
    groups: dict[Any, list[Cell]] = {}
    # Rules share fits where validation labels only choose among finished fits, or are complete under either rule.
    for cell in cells:
        shares = "max_epochs" not in accepted_parameters(cell.key) or cell.sees_all_labels
        rule = None if shares else cell.rule
        groups.setdefault((cell.dataset, cell.method, cell.trial, cell.train_fraction, rule), []).append(cell)
    return list(groups.values())

"""Every method by its key: which class, settings and paper, what it assumes and needs, its revision (methods.toml)."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._utils import storage
from onepos._utils.machine import import_named
from onepos._utils.validation import similar

if TYPE_CHECKING:
    import pandas as pd

    from onepos.methods._base import OnePositiveClassifier


@dataclass(frozen=True)
class Method:
    """One record of the table of methods.

    ``preset`` are the parameters that make the class this method. ``revision`` rises whenever predictions change by
    more than rounding: stored results belong to one revision.
    """

    key: str
    name: str
    class_name: str
    paper: str
    year: int | None = None
    assumptions: str = "see its documentation"
    needs: str = "see its documentation"
    revision: int = 1
    preset: dict[str, Any] = field(default_factory=dict)

    def load_class(self) -> type["OnePositiveClassifier"]:
        """Import the estimator class (torch comes with it)."""
        from onepos.methods._base import OnePositiveClassifier

        made = self._named()
        if not (isinstance(made, type) and issubclass(made, OnePositiveClassifier)):
            raise ValueError(
                f"method {self.key!r}: {self.class_name} must be a class that derives from a onepos classifier."
            )
        return made

    def _named(self) -> Any:
        if ":" not in self.class_name:
            return getattr(import_module("onepos"), self.class_name)
        try:
            return import_named(self.class_name)
        except ValueError as error:
            raise ValueError(f"method {self.key!r}: {error}") from error

    def build(self, **params: Any) -> "OnePositiveClassifier":
        """Return the estimator; another classifier with ``predict_proba``, a class or an object, is wrapped."""
        from onepos.methods._base import OnePositiveClassifier
        from onepos.methods.observed_tag import ObservedTagClassifier

        named = self._named()
        is_class = isinstance(named, type)
        if hasattr(named, "predict_proba") and not (is_class and issubclass(named, OnePositiveClassifier)):
            wrapped = ObservedTagClassifier(estimator=named() if is_class else named)
            wrapped.set_params(**params)
            return wrapped
        return self.load_class()(**{**self.preset, **params})


def _read_methods() -> dict[str, Method]:
    declared = tomllib.loads(Path(__file__).with_name("methods.toml").read_text(encoding="utf-8"))
    methods = {}
    for key, facts in declared["method"].items():
        class_name, paper = facts.pop("class"), declared["paper"][facts.pop("paper")]
        about = {"needs": "nothing", "paper": paper["text"], "year": paper.get("year"), **facts}
        methods[key] = Method(key, class_name=class_name, **about)
    return methods


METHODS = _read_methods()
#: Methods that another distribution of this project registers; an unknown key among them is answered with its name.
_IN_STUDIES = ("glocal", "mlml", "d2ml", "smile-code")


@cache
def _elsewhere(key: str, target: str) -> Method:
    """Return the record of a class of another package, which its attribute ``about`` fills in."""
    record = Method(key, target.rpartition(":")[2], target, "of another package")
    try:
        about = getattr(record.load_class(), "about", {})
        return replace(record, **about)
    except ValueError:  # said when the method is used; the list shows that it is there
        return record
    except TypeError as error:
        known = ", ".join(("name", "paper", "year", "assumptions", "needs", "revision", "preset"))
        raise ValueError(f"method {key!r}: {target}.about may have {known}; {error}.") from error


def installed_methods() -> dict[str, Method]:
    """Return the methods here, then those that installed packages register as entry points ``onepos.methods``.

    An entry point is ``key = "package.module:Class"``. The class derives from a onepos classifier. Its class attribute
    ``about``, a dict, may have ``name``, ``paper``, ``year``, ``assumptions``, ``needs``, ``revision`` and ``preset``.
    """
    points = sorted(entry_points(group="onepos.methods"), key=lambda point: point.name)
    others = {point.name: point.value for point in points if point.name not in METHODS}
    return METHODS | {key: _elsewhere(key, value) for key, value in others.items()}


class StoredEstimator(storage.Part):
    """The rule of an estimator in a model file: of one of some methods of the library, or of any that is installed.

    A file names a class, and the class is looked up here: no file can name code to run.
    """

    def __init__(self, *keys: str) -> None:
        super().__init__()
        self._keys = keys

    def kinds(self) -> dict[str, Callable[[], type]]:
        """Return how to import the classes, by their names."""
        # Of two classes of one name that of the library counts.
        methods = [METHODS[key] for key in self._keys] or [*installed_methods().values()][::-1]
        return {method.class_name.rpartition(":")[2]: method.load_class for method in methods}


def get_method(key: str) -> Method:
    """Return the record of a method by its key, or of a class of one's own as ``package.module:Class``."""
    if key in METHODS:
        return METHODS[key]
    if ":" in key:
        return _elsewhere(key, key)
    known = installed_methods()
    if key not in known:
        if key in _IN_STUDIES:
            raise ValueError(f"the method {key!r} is in another package: pip install onepos-studies.")
        raise ValueError(
            f"unknown method {key!r}. {similar(key, known) or 'Known: ' + ', '.join(known) + '.'} "
            "For your own class, use package.module:Class."
        )
    return known[key]


def list_methods() -> "pd.DataFrame":
    """One record per method: key, name, paper, year, assumptions, needs.

    Examples
    --------
    >>> import onepos
    >>> onepos.list_methods().loc["wan", "name"]
    'WAN'
    """
    import pandas as pd

    columns = ["key", "name", "class_name", "paper", "year", "assumptions", "needs", "revision"]
    frame = pd.DataFrame([{name: getattr(method, name) for name in columns} for method in installed_methods().values()])
    frame["year"] = frame["year"].astype("Int64")
    return frame.set_index("key")


def key_of(estimator: "OnePositiveClassifier") -> str | None:
    """Return the key of an estimator's method: of its class, the one whose preset it has most of; None if unknown.

    Examples
    --------
    >>> import onepos
    >>> key_of(onepos.make_classifier("wan", max_epochs=5)), key_of(onepos.AssumeNegativeClassifier(dropout=0.1))
    ('wan', 'an')
    """
    params = estimator.get_params(deep=False)
    fitting = [
        method
        for method in installed_methods().values()
        if method.class_name.rpartition(":")[2] == type(estimator).__name__
        and all(params[name] == value for name, value in method.preset.items())
    ]
    return max(fitting, key=lambda method: len(method.preset)).key if fitting else None


def make_classifier(key: str, **params: Any) -> "OnePositiveClassifier":
    """Build the estimator of a method by its key; ``params`` override its settings.

    ``package.module:Class`` is a class of one's own: a onepos classifier, or any classifier with ``predict_proba``,
    which is wrapped in ``ObservedTagClassifier``.

    Examples
    --------
    >>> import onepos
    >>> onepos.make_classifier("an-ls", max_epochs=5)
    AssumeNegativeClassifier(label_smoothing=0.1, max_epochs=5)
    """
    return get_method(key).build(**params)

"""Every method by its key: which class, which settings, which paper, what it assumes and needs."""

from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

    from onepos.methods._base import OnePositiveClassifier


class Paper(NamedTuple):
    """Where a method was published."""

    text: str
    year: int | None = None


@dataclass(frozen=True)
class Method:
    """One record of the table of methods; ``preset`` are the parameters that make the class this method."""

    key: str
    name: str
    class_name: str
    published: Paper
    needs: str = "nothing"
    preset: dict[str, Any] = field(default_factory=dict)

    @property
    def paper(self) -> str:
        """Authors, title and venue."""
        return self.published.text

    @property
    def year(self) -> int | None:
        """Year of the paper."""
        return self.published.year

    @property
    def assumptions(self) -> str:
        """What the method takes for granted."""
        return _ASSUMPTIONS.get(self.key, "see its documentation")

    def load_class(self) -> type["OnePositiveClassifier"]:
        """Import the estimator class (torch comes with it)."""
        module, _, name = self.class_name.rpartition(":")
        if not module:
            return getattr(import_module("onepos"), name)  # type: ignore[no-any-return]
        from onepos.methods._base import OnePositiveClassifier

        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"method {self.key!r}: cannot import {self.class_name}: {error}.") from error
        if not (isinstance(found, type) and issubclass(found, OnePositiveClassifier)):
            raise ValueError(
                f"method {self.key!r}: {self.class_name} must be a class that derives from a onepos classifier."
            )
        return found


_OWN = Paper("none: the library's own")
_XU = Paper("Xu et al., One Positive Label is Sufficient, NeurIPS", 2022)
_COLE = Paper("Cole et al., Multi-Label Learning from Single Positive Labels, CVPR", 2021)
_ZHOU = Paper("Zhou et al., Acknowledging the Unknown for Multi-Label Learning with Single Positive Labels, ECCV", 2022)
_KIM = Paper("Kim et al., Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR", 2022)
_ZHANG = Paper(
    "Zhang et al., Simple and Robust Loss Design for Multi-Label Learning with Missing Labels, arXiv 2112.07368", 2021
)
_CHEN = Paper(
    "Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust Loss, IJCAI", 2024
)
_LIU = Paper("Liu et al., Can Class-Priors Help Single-Positive Multi-Label Learning?, NeurIPS", 2025)
_ZHU = Paper("Zhu et al., Multi-Label Learning with Global and Local Label Correlation, TKDE", 2018)
_WU = Paper("Wu et al., Multi-label Learning with Missing Labels, ICPR", 2014)
_MA = Paper("Ma & Chen, Expand Globally, Shrink Locally, Pattern Recognition", 2021)
_TEXTBOOK = Paper("textbook")
_SAUNDERS = Paper("Saunders et al., Ridge Regression Learning Algorithm in Dual Variables, ICML", 1998)
_GEURTS = Paper("Geurts et al., Extremely Randomized Trees, Machine Learning", 2006)
_NUMBER = "mean number of positives (given, from full validation labels, or 2)"
_NUMBER_OR_ESTIMATE = "mean number of positives (given, from full validation labels, estimated, or 2)"

#: What each method takes for granted.
_ASSUMPTIONS = {
    "auto": "what tells the observed label tells the others",
    "smile": "near rows share labels",
    "smile-si": "after a warm-up the classifier's own confidence is about right",
    "smile-code": "near rows share labels; an unknown label is there with probability p0",
    "an": "unknown means negative",
    "an-ls": "unknown means probably negative",
    "wan": "unknown means weakly negative",
    "role": "the mean number of positives is known; what the network finds easy is right",
    "epr": "the mean number of positives is known",
    "em": "unknown says nothing, neither present nor absent",
    "em-apl": "unknown says nothing; what the network finds least likely is absent",
    "ll-r": "unknown means negative, except where the network cannot believe it",
    "ll-ct": "unknown means negative, except where the network cannot believe it",
    "ll-cp": "unknown means negative, except where the network once could not believe it",
    "hill": "unknown means negative, except where the network is sure of the opposite",
    "splc": "what the network finds likely is there",
    "gr": "an unknown label is there the sooner, the likelier the network finds it",
    "crisp": "observed positives are a random sample of a label's positives; the highest scores are all positive",
    "glocal": "labels are mixtures of few latent labels and correlate, globally and within groups of rows",
    "mlml": "near rows share labels; similar labels share rows",
    "d2ml": "predictions have low rank among rows that share a label, high rank over all rows",
    "softmax": "what is likely to be observed is likely to be present",
    "capped": "the observed label is any of the m that are there; every row has m",
    "kernel": "near rows have similar labels; what is likely to be observed is likely to be present",
    "logistic": "what is likely to be observed is likely to be present; linear log-odds",
    "forest": "what is likely to be observed is likely to be present",
    "linear": "unknown means negative",
    "frequency": "features do not matter",
    "bce": "every 0 is a true negative",
}

_TABLE = (
    Method("auto", "Auto", "AutoClassifier", _OWN, needs="a time budget"),
    Method("smile", "SMILE", "SMILEClassifier", _XU, needs=_NUMBER),
    Method("smile-si", "SMILE-SI", "SMILESIClassifier", _XU),
    Method(
        "smile-code",
        "SMILE as released",
        "SMILEReleasedClassifier",
        _XU,
        needs="three constants chosen by data set (SMILEReleasedClassifier.for_dataset)",
    ),
    Method("an", "AN", "AssumeNegativeClassifier", _COLE),
    Method("an-ls", "AN-LS", "AssumeNegativeClassifier", _COLE, preset={"label_smoothing": 0.1}),
    Method("wan", "WAN", "AssumeNegativeClassifier", _COLE, preset={"unobserved_weight": "auto"}),
    Method("role", "ROLE", "ROLEClassifier", _COLE, needs=_NUMBER_OR_ESTIMATE),
    Method("epr", "EPR", "ExpectedPositiveClassifier", _COLE, needs=_NUMBER_OR_ESTIMATE),
    Method("em", "EM", "EntropyMaximizationClassifier", _ZHOU),
    Method("em-apl", "EM+APL", "EntropyMaximizationClassifier", _ZHOU, preset={"pseudo_label_share": 0.9}),
    Method("ll-r", "LL-R", "LargeLossClassifier", _KIM, preset={"scheme": "reject", "rate_per_epoch": 0.005}),
    Method("ll-ct", "LL-Ct", "LargeLossClassifier", _KIM, preset={"scheme": "correct", "rate_per_epoch": 0.002}),
    Method(
        "ll-cp", "LL-Cp", "LargeLossClassifier", _KIM, preset={"scheme": "correct-permanently", "rate_per_epoch": 0.001}
    ),
    Method("hill", "Hill", "HillClassifier", _ZHANG),
    Method("splc", "SPLC", "SPLCClassifier", _ZHANG),
    Method("gr", "GR", "GeneralizedRobustClassifier", _CHEN),
    Method("crisp", "CRISP", "CRISPClassifier", _LIU),
    Method("glocal", "GLOCAL", "GLOCALClassifier", _ZHU),
    Method("mlml", "MLML", "MLMLClassifier", _WU, needs="the training rows at prediction"),
    Method("d2ml", "D2ML", "D2MLClassifier", _MA),
    Method("softmax", "Softmax", "SoftmaxClassifier", _TEXTBOOK),
    Method("capped", "Capped softmax", "CappedSoftmaxClassifier", _OWN, needs=_NUMBER),
    Method("kernel", "Kernel", "KernelClassifier", _SAUNDERS),
    Method("logistic", "Logistic", "LogisticClassifier", _TEXTBOOK),
    Method("forest", "Forest", "ForestClassifier", _GEURTS),
    Method("linear", "Linear AN", "LinearClassifier", _TEXTBOOK),
    Method("frequency", "Frequency", "FrequencyClassifier", _TEXTBOOK),
    Method("bce", "Full supervision", "FullySupervisedClassifier", _TEXTBOOK, needs="complete labels"),
)

METHODS: dict[str, Method] = {method.key: method for method in _TABLE}


def _of_package(key: str, target: str) -> Method:
    return Method(key, target.rpartition(":")[2], target, Paper("of another package"), "see its documentation")


def installed_methods() -> dict[str, Method]:
    """Return the methods here and those that installed packages register as entry points ``onepos.methods``."""
    points = entry_points(group="onepos.methods")
    return {point.name: _of_package(point.name, point.value) for point in points} | METHODS


def get_method(key: str) -> Method:
    """Return the record of a method by its key, or of a class of one's own as ``package.module:Class``."""
    if key in METHODS:
        return METHODS[key]
    if ":" in key:
        return _of_package(key, key)
    known = installed_methods()
    if key not in known:
        raise ValueError(
            f"unknown method {key!r}; known: {', '.join(known)}. A class of one's own is given as package.module:Class."
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

    columns = ["key", "name", "class_name", "paper", "year", "assumptions", "needs"]
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

    Examples
    --------
    >>> import onepos
    >>> onepos.make_classifier("an-ls", max_epochs=5)
    AssumeNegativeClassifier(label_smoothing=0.1, max_epochs=5)
    """
    method = get_method(key)
    return method.load_class()(**{**method.preset, **params})

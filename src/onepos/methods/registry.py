"""Every method by its key: which class, which settings, which paper, what it assumes and needs."""

from dataclasses import dataclass, field
from importlib import import_module
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
    assumptions: str
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

    def load_class(self) -> type["OnePositiveClassifier"]:
        """Import the estimator class (torch comes with it)."""
        return getattr(import_module("onepos"), self.class_name)  # type: ignore[no-any-return]


_COLE = Paper("Cole et al., Multi-Label Learning from Single Positive Labels, CVPR", 2021)
_KIM = Paper("Kim et al., Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR", 2022)
_ZHANG = Paper(
    "Zhang et al., Simple and Robust Loss Design for Multi-Label Learning with Missing Labels, arXiv 2112.07368", 2021
)
_ZHOU = Paper("Zhou et al., Acknowledging the Unknown for Multi-Label Learning with Single Positive Labels, ECCV", 2022)
_XU = Paper("Xu et al., One Positive Label is Sufficient, NeurIPS", 2022)
_TEXTBOOK, _OWN = Paper("textbook"), Paper("none: the library's own")
_NUMBER = "mean number of positives (given, from full validation labels, or 2)"
_NUMBER_OR_ESTIMATE = "mean number of positives (given, from full validation labels, estimated, or 2)"

_TABLE = (
    Method(
        "auto", "Auto", "AutoClassifier", _OWN, "what tells the observed label tells the others", needs="a time budget"
    ),
    Method("smile", "SMILE", "SMILEClassifier", _XU, "near rows share labels", needs=_NUMBER),
    Method(
        "smile-si",
        "SMILE-SI",
        "SMILESIClassifier",
        _XU,
        "after a warm-up the classifier's own confidence is about right",
    ),
    Method(
        "smile-code",
        "SMILE as released",
        "SMILEReleasedClassifier",
        _XU,
        "near rows share labels; an unknown label is there with probability p0",
        needs="three constants chosen by data set (SMILEReleasedClassifier.for_dataset)",
    ),
    Method("an", "AN", "AssumeNegativeClassifier", _COLE, "unknown means negative"),
    Method(
        "an-ls",
        "AN-LS",
        "AssumeNegativeClassifier",
        _COLE,
        "unknown means probably negative",
        preset={"label_smoothing": 0.1},
    ),
    Method(
        "wan",
        "WAN",
        "AssumeNegativeClassifier",
        _COLE,
        "unknown means weakly negative",
        preset={"unobserved_weight": "auto"},
    ),
    Method(
        "role",
        "ROLE",
        "ROLEClassifier",
        _COLE,
        "the mean number of positives is known; what the network finds easy is right",
        needs=_NUMBER_OR_ESTIMATE,
    ),
    Method(
        "epr",
        "EPR",
        "ExpectedPositiveClassifier",
        _COLE,
        "the mean number of positives is known",
        needs=_NUMBER_OR_ESTIMATE,
    ),
    Method("em", "EM", "EntropyMaximizationClassifier", _ZHOU, "unknown says nothing, neither present nor absent"),
    Method(
        "em-apl",
        "EM+APL",
        "EntropyMaximizationClassifier",
        _ZHOU,
        "unknown says nothing; what the network finds least likely is absent",
        preset={"pseudo_label_share": 0.9},
    ),
    Method(
        "ll-r",
        "LL-R",
        "LargeLossClassifier",
        _KIM,
        "unknown means negative, except where the network cannot believe it",
        preset={"scheme": "reject", "rate_per_epoch": 0.005},
    ),
    Method(
        "ll-ct",
        "LL-Ct",
        "LargeLossClassifier",
        _KIM,
        "unknown means negative, except where the network cannot believe it",
        preset={"scheme": "correct", "rate_per_epoch": 0.002},
    ),
    Method(
        "ll-cp",
        "LL-Cp",
        "LargeLossClassifier",
        _KIM,
        "unknown means negative, except where the network once could not believe it",
        preset={"scheme": "correct-permanently", "rate_per_epoch": 0.001},
    ),
    Method(
        "hill",
        "Hill",
        "HillClassifier",
        _ZHANG,
        "unknown means negative, except where the network is sure of the opposite",
    ),
    Method("splc", "SPLC", "SPLCClassifier", _ZHANG, "what the network finds likely is there"),
    Method(
        "gr",
        "GR",
        "GeneralizedRobustClassifier",
        Paper(
            "Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust Loss, IJCAI", 2024
        ),
        "an unknown label is there the sooner, the likelier the network finds it",
    ),
    Method(
        "crisp",
        "CRISP",
        "CRISPClassifier",
        Paper("Liu et al., Can Class-Priors Help Single-Positive Multi-Label Learning?, NeurIPS", 2025),
        "observed positives are a random sample of a label's positives; the highest scores are all positive",
    ),
    Method(
        "glocal",
        "GLOCAL",
        "GLOCALClassifier",
        Paper("Zhu et al., Multi-Label Learning with Global and Local Label Correlation, TKDE", 2018),
        "labels are mixtures of few latent labels and correlate, globally and within groups of rows",
    ),
    Method(
        "mlml",
        "MLML",
        "MLMLClassifier",
        Paper("Wu et al., Multi-label Learning with Missing Labels, ICPR", 2014),
        "near rows share labels; similar labels share rows",
        needs="the training rows at prediction",
    ),
    Method(
        "d2ml",
        "D2ML",
        "D2MLClassifier",
        Paper("Ma & Chen, Expand Globally, Shrink Locally, Pattern Recognition", 2021),
        "predictions have low rank among rows that share a label, high rank over all rows",
    ),
    Method(
        "softmax", "Softmax", "SoftmaxClassifier", _TEXTBOOK, "what is likely to be observed is likely to be present"
    ),
    Method(
        "capped",
        "Capped softmax",
        "CappedSoftmaxClassifier",
        _OWN,
        "the observed label is any of the m that are there; every row has m",
        needs=_NUMBER,
    ),
    Method(
        "kernel",
        "Kernel",
        "KernelClassifier",
        Paper("Saunders et al., Ridge Regression Learning Algorithm in Dual Variables, ICML", 1998),
        "near rows have similar labels; what is likely to be observed is likely to be present",
    ),
    Method(
        "logistic",
        "Logistic",
        "LogisticClassifier",
        _TEXTBOOK,
        "what is likely to be observed is likely to be present; linear log-odds",
    ),
    Method(
        "forest",
        "Forest",
        "ForestClassifier",
        Paper("Geurts et al., Extremely Randomized Trees, Machine Learning", 2006),
        "what is likely to be observed is likely to be present",
    ),
    Method("linear", "Linear AN", "LinearClassifier", _TEXTBOOK, "unknown means negative"),
    Method("frequency", "Frequency", "FrequencyClassifier", _TEXTBOOK, "features do not matter"),
    Method(
        "bce",
        "Full supervision",
        "FullySupervisedClassifier",
        _TEXTBOOK,
        "every 0 is a true negative",
        needs="complete labels",
    ),
)

METHODS: dict[str, Method] = {method.key: method for method in _TABLE}


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
    frame = pd.DataFrame([{name: getattr(method, name) for name in columns} for method in METHODS.values()])
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
        for method in METHODS.values()
        if method.class_name == type(estimator).__name__
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
    if key not in METHODS:
        raise ValueError(f"unknown method {key!r}; known: {', '.join(METHODS)}.")
    method = METHODS[key]
    return method.load_class()(**{**method.preset, **params})

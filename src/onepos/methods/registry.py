"""Every method by its key: which class, which settings, which paper, what it assumes and needs."""

from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from onepos.methods._base import OnePositiveClassifier


@dataclass(frozen=True)
class Method:
    """One line of the table of methods; ``preset`` are the parameters that make the class this method."""

    key: str
    name: str
    module: str
    class_name: str
    paper: str
    year: int | None
    assumptions: str
    needs: str
    preset: dict[str, Any] = field(default_factory=dict)

    def load_class(self) -> type["OnePositiveClassifier"]:
        """Import the estimator class (torch comes with it)."""
        return getattr(import_module(f"onepos.methods.{self.module}"), self.class_name)  # type: ignore[no-any-return]


_COLE = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR"
_KIM = "Kim et al., Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR"
_ZHANG = "Zhang et al., Simple and Robust Loss Design for Multi-Label Learning with Missing Labels, arXiv 2112.07368"
_ZHOU = "Zhou et al., Acknowledging the Unknown for Multi-Label Learning with Single Positive Labels, ECCV"
_XU = "Xu et al., One Positive Label is Sufficient, NeurIPS"

METHODS: dict[str, Method] = {
    method.key: method
    for method in (
        Method(
            "auto",
            "Auto",
            "auto.classifier",
            "AutoClassifier",
            "none: the library's own",
            None,
            "what tells the observed label tells the others",
            "a time budget",
        ),
        Method(
            "smile",
            "SMILE",
            "smile.classifier",
            "SMILEClassifier",
            _XU,
            2022,
            "near rows share labels",
            "mean number of positives (given, from full validation labels, or 2)",
        ),
        Method(
            "smile-si",
            "SMILE-SI",
            "smile.si",
            "SMILESIClassifier",
            _XU,
            2022,
            "after a warm-up the classifier's own confidence is about right",
            "nothing",
        ),
        Method(
            "smile-code",
            "SMILE as released",
            "smile.code",
            "SMILEReleasedClassifier",
            _XU,
            2022,
            "near rows share labels; an unknown label is there with probability p0",
            "three constants chosen by data set (SMILEReleasedClassifier.for_dataset)",
        ),
        Method(
            "an", "AN", "assume_negative", "AssumeNegativeClassifier", _COLE, 2021, "unknown means negative", "nothing"
        ),
        Method(
            "an-ls",
            "AN-LS",
            "assume_negative",
            "AssumeNegativeClassifier",
            _COLE,
            2021,
            "unknown means probably negative",
            "nothing",
            {"label_smoothing": 0.1},
        ),
        Method(
            "wan",
            "WAN",
            "assume_negative",
            "AssumeNegativeClassifier",
            _COLE,
            2021,
            "unknown means weakly negative",
            "nothing",
            {"unobserved_weight": "auto"},
        ),
        Method(
            "role",
            "ROLE",
            "role",
            "ROLEClassifier",
            _COLE,
            2021,
            "the mean number of positives is known; what the network finds easy is right",
            "mean number of positives (given, from full validation labels, estimated, or 2)",
        ),
        Method(
            "epr",
            "EPR",
            "expected_positive",
            "ExpectedPositiveClassifier",
            _COLE,
            2021,
            "the mean number of positives is known",
            "mean number of positives (given, from full validation labels, estimated, or 2)",
        ),
        Method(
            "em",
            "EM",
            "entropy_maximization",
            "EntropyMaximizationClassifier",
            _ZHOU,
            2022,
            "unknown says nothing, neither present nor absent",
            "nothing",
        ),
        Method(
            "em-apl",
            "EM+APL",
            "entropy_maximization",
            "EntropyMaximizationClassifier",
            _ZHOU,
            2022,
            "unknown says nothing; what the network finds least likely is absent",
            "nothing",
            {"pseudo_label_share": 0.9},
        ),
        Method(
            "ll-r",
            "LL-R",
            "large_loss",
            "LargeLossClassifier",
            _KIM,
            2022,
            "unknown means negative, except where the network cannot believe it",
            "nothing",
            {"scheme": "reject", "rate_per_epoch": 0.005},
        ),
        Method(
            "ll-ct",
            "LL-Ct",
            "large_loss",
            "LargeLossClassifier",
            _KIM,
            2022,
            "unknown means negative, except where the network cannot believe it",
            "nothing",
            {"scheme": "correct", "rate_per_epoch": 0.002},
        ),
        Method(
            "ll-cp",
            "LL-Cp",
            "large_loss",
            "LargeLossClassifier",
            _KIM,
            2022,
            "unknown means negative, except where the network once could not believe it",
            "nothing",
            {"scheme": "correct-permanently", "rate_per_epoch": 0.001},
        ),
        Method(
            "hill",
            "Hill",
            "hill",
            "HillClassifier",
            _ZHANG,
            2021,
            "unknown means negative, except where the network is sure of the opposite",
            "nothing",
        ),
        Method(
            "splc",
            "SPLC",
            "splc",
            "SPLCClassifier",
            _ZHANG,
            2021,
            "what the network finds likely is there",
            "nothing",
        ),
        Method(
            "gr",
            "GR",
            "generalized_robust",
            "GeneralizedRobustClassifier",
            "Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust Loss, IJCAI",
            2024,
            "an unknown label is there the sooner, the likelier the network finds it",
            "nothing",
        ),
        Method(
            "crisp",
            "CRISP",
            "crisp",
            "CRISPClassifier",
            "Liu et al., Can Class-Priors Help Single-Positive Multi-Label Learning?, NeurIPS",
            2025,
            "observed positives are a random sample of a label's positives; the highest scores are all positive",
            "nothing",
        ),
        Method(
            "glocal",
            "GLOCAL",
            "glocal",
            "GLOCALClassifier",
            "Zhu et al., Multi-Label Learning with Global and Local Label Correlation, TKDE",
            2018,
            "labels are mixtures of few latent labels and correlate, globally and within groups of rows",
            "nothing",
        ),
        Method(
            "mlml",
            "MLML",
            "mlml",
            "MLMLClassifier",
            "Wu et al., Multi-label Learning with Missing Labels, ICPR",
            2014,
            "near rows share labels; similar labels share rows",
            "the training rows at prediction",
        ),
        Method(
            "d2ml",
            "D2ML",
            "d2ml",
            "D2MLClassifier",
            "Ma & Chen, Expand Globally, Shrink Locally, Pattern Recognition",
            2021,
            "predictions have low rank among rows that share a label, high rank over all rows",
            "nothing",
        ),
        Method(
            "softmax",
            "Softmax",
            "softmax",
            "SoftmaxClassifier",
            "textbook",
            None,
            "what is likely to be observed is likely to be present",
            "nothing",
        ),
        Method(
            "capped",
            "Capped softmax",
            "capped_softmax",
            "CappedSoftmaxClassifier",
            "none: the library's own",
            None,
            "the observed label is any of the m that are there; every row has m",
            "mean number of positives (given, from full validation labels, or 2)",
        ),
        Method(
            "kernel",
            "Kernel",
            "kernel",
            "KernelClassifier",
            "Saunders et al., Ridge Regression Learning Algorithm in Dual Variables, ICML",
            1998,
            "near rows have similar labels; what is likely to be observed is likely to be present",
            "nothing",
        ),
        Method(
            "logistic",
            "Logistic",
            "logistic",
            "LogisticClassifier",
            "textbook",
            None,
            "what is likely to be observed is likely to be present; linear log-odds",
            "nothing",
        ),
        Method(
            "forest",
            "Forest",
            "forest",
            "ForestClassifier",
            "Geurts et al., Extremely Randomized Trees, Machine Learning",
            2006,
            "what is likely to be observed is likely to be present",
            "nothing",
        ),
        Method(
            "linear", "Linear AN", "linear", "LinearClassifier", "textbook", None, "unknown means negative", "nothing"
        ),
        Method(
            "frequency",
            "Frequency",
            "frequency",
            "FrequencyClassifier",
            "textbook",
            None,
            "features do not matter",
            "nothing",
        ),
        Method(
            "bce",
            "Full supervision",
            "assume_negative",
            "FullySupervisedClassifier",
            "textbook",
            None,
            "every 0 is a true negative",
            "complete labels",
        ),
    )
}


def list_methods() -> "pd.DataFrame":
    """One record a method: key, name, paper, year, assumptions, needs.

    Examples
    --------
    >>> import onepos
    >>> onepos.list_methods().loc["wan", "name"]
    'WAN'
    """
    import pandas as pd

    columns = ["key", "name", "class_name", "paper", "year", "assumptions", "needs"]
    frame = pd.DataFrame([asdict(method) for method in METHODS.values()])[columns]
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

"""onepos: multi-label classification from one positive label per example."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onepos.labels import one_positive as one_positive
    from onepos.methods.assume_negative import AssumeNegativeClassifier as AssumeNegativeClassifier
    from onepos.methods.auto import AutoClassifier as AutoClassifier
    from onepos.methods.capped_softmax import CappedSoftmaxClassifier as CappedSoftmaxClassifier
    from onepos.methods.crisp import CRISPClassifier as CRISPClassifier
    from onepos.methods.d2ml import D2MLClassifier as D2MLClassifier
    from onepos.methods.entropy_maximization import EntropyMaximizationClassifier as EntropyMaximizationClassifier
    from onepos.methods.expected_positive import ExpectedPositiveClassifier as ExpectedPositiveClassifier
    from onepos.methods.forest import ForestClassifier as ForestClassifier
    from onepos.methods.frequency import FrequencyClassifier as FrequencyClassifier
    from onepos.methods.full_supervision import FullySupervisedClassifier as FullySupervisedClassifier
    from onepos.methods.generalized_robust import GeneralizedRobustClassifier as GeneralizedRobustClassifier
    from onepos.methods.glocal import GLOCALClassifier as GLOCALClassifier
    from onepos.methods.hill import HillClassifier as HillClassifier
    from onepos.methods.kernel import KernelClassifier as KernelClassifier
    from onepos.methods.large_loss import LargeLossClassifier as LargeLossClassifier
    from onepos.methods.linear import LinearClassifier as LinearClassifier
    from onepos.methods.logistic import LogisticClassifier as LogisticClassifier
    from onepos.methods.mlml import MLMLClassifier as MLMLClassifier
    from onepos.methods.role import ROLEClassifier as ROLEClassifier
    from onepos.methods.smile import SMILEClassifier as SMILEClassifier
    from onepos.methods.smile_code import SMILEReleasedClassifier as SMILEReleasedClassifier
    from onepos.methods.smile_si import SMILESIClassifier as SMILESIClassifier
    from onepos.methods.softmax import SoftmaxClassifier as SoftmaxClassifier
    from onepos.methods.splc import SPLCClassifier as SPLCClassifier
    from onepos.persistence import load as load
    from onepos.registry import list_methods as list_methods
    from onepos.registry import make_classifier as make_classifier

__version__ = "0.1.0"

# Imported on first use: `import onepos` must not pull in torch.
_HOME = {
    "AssumeNegativeClassifier": "onepos.methods.assume_negative",
    "AutoClassifier": "onepos.methods.auto",
    "CRISPClassifier": "onepos.methods.crisp",
    "CappedSoftmaxClassifier": "onepos.methods.capped_softmax",
    "D2MLClassifier": "onepos.methods.d2ml",
    "EntropyMaximizationClassifier": "onepos.methods.entropy_maximization",
    "ExpectedPositiveClassifier": "onepos.methods.expected_positive",
    "ForestClassifier": "onepos.methods.forest",
    "FrequencyClassifier": "onepos.methods.frequency",
    "FullySupervisedClassifier": "onepos.methods.full_supervision",
    "GLOCALClassifier": "onepos.methods.glocal",
    "GeneralizedRobustClassifier": "onepos.methods.generalized_robust",
    "HillClassifier": "onepos.methods.hill",
    "LargeLossClassifier": "onepos.methods.large_loss",
    "LinearClassifier": "onepos.methods.linear",
    "KernelClassifier": "onepos.methods.kernel",
    "LogisticClassifier": "onepos.methods.logistic",
    "MLMLClassifier": "onepos.methods.mlml",
    "ROLEClassifier": "onepos.methods.role",
    "SMILEClassifier": "onepos.methods.smile",
    "SMILEReleasedClassifier": "onepos.methods.smile_code",
    "SMILESIClassifier": "onepos.methods.smile_si",
    "SPLCClassifier": "onepos.methods.splc",
    "SoftmaxClassifier": "onepos.methods.softmax",
    "list_methods": "onepos.registry",
    "load": "onepos.persistence",
    "make_classifier": "onepos.registry",
    "one_positive": "onepos.labels",
}
_SUBMODULES = (
    "calibration",
    "columns",
    "datasets",
    "doctor",
    "exceptions",
    "figures",
    "metrics",
    "onnx_export",
    "persistence",
    "report",
    "review",
    "statistics",
    "study",
    "tables",
    "testing",
    "theory",
    "thresholds",
    "training",
    "tuning",
)

__all__ = sorted([*_HOME, *_SUBMODULES])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _SUBMODULES:
        value = import_module(f"onepos.{name}")
    else:
        raise AttributeError(f"module 'onepos' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""onepos: multi-label classification from one positive label per example."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onepos._utils.labels import one_positive as one_positive
    from onepos.methods.assume_negative import AssumeNegativeClassifier as AssumeNegativeClassifier
    from onepos.methods.assume_negative import FullySupervisedClassifier as FullySupervisedClassifier
    from onepos.methods.auto.classifier import AutoClassifier as AutoClassifier
    from onepos.methods.centroid import CentroidClassifier as CentroidClassifier
    from onepos.methods.crisp import CRISPClassifier as CRISPClassifier
    from onepos.methods.entropy_maximization import EntropyMaximizationClassifier as EntropyMaximizationClassifier
    from onepos.methods.forest import ForestClassifier as ForestClassifier
    from onepos.methods.frequency import FrequencyClassifier as FrequencyClassifier
    from onepos.methods.generalized_robust import GeneralizedRobustClassifier as GeneralizedRobustClassifier
    from onepos.methods.hill import HillClassifier as HillClassifier
    from onepos.methods.hill import SPLCClassifier as SPLCClassifier
    from onepos.methods.kernel import KernelClassifier as KernelClassifier
    from onepos.methods.large_loss import LargeLossClassifier as LargeLossClassifier
    from onepos.methods.logistic import LogisticClassifier as LogisticClassifier
    from onepos.methods.observed_tag import ObservedTagClassifier as ObservedTagClassifier
    from onepos.methods.registry import list_methods as list_methods
    from onepos.methods.registry import make_classifier as make_classifier
    from onepos.methods.role import ExpectedPositiveClassifier as ExpectedPositiveClassifier
    from onepos.methods.role import ROLEClassifier as ROLEClassifier
    from onepos.methods.smile.classifier import SMILEClassifier as SMILEClassifier
    from onepos.methods.smile.classifier import SMILESIClassifier as SMILESIClassifier
    from onepos.methods.softmax import CappedSoftmaxClassifier as CappedSoftmaxClassifier
    from onepos.methods.softmax import SoftmaxClassifier as SoftmaxClassifier
    from onepos.persistence import load as load
    from onepos.table import TableModel as TableModel

__version__ = "0.2.0"

# Imported on first use: `import onepos` must not pull in torch.
_HOME = {
    "AssumeNegativeClassifier": "onepos.methods.assume_negative",
    "AutoClassifier": "onepos.methods.auto.classifier",
    "CRISPClassifier": "onepos.methods.crisp",
    "CappedSoftmaxClassifier": "onepos.methods.softmax",
    "EntropyMaximizationClassifier": "onepos.methods.entropy_maximization",
    "ExpectedPositiveClassifier": "onepos.methods.role",
    "CentroidClassifier": "onepos.methods.centroid",
    "ForestClassifier": "onepos.methods.forest",
    "FrequencyClassifier": "onepos.methods.frequency",
    "FullySupervisedClassifier": "onepos.methods.assume_negative",
    "GeneralizedRobustClassifier": "onepos.methods.generalized_robust",
    "HillClassifier": "onepos.methods.hill",
    "LargeLossClassifier": "onepos.methods.large_loss",
    "KernelClassifier": "onepos.methods.kernel",
    "LogisticClassifier": "onepos.methods.logistic",
    "ObservedTagClassifier": "onepos.methods.observed_tag",
    "ROLEClassifier": "onepos.methods.role",
    "SMILEClassifier": "onepos.methods.smile.classifier",
    "SMILESIClassifier": "onepos.methods.smile.classifier",
    "SPLCClassifier": "onepos.methods.hill",
    "SoftmaxClassifier": "onepos.methods.softmax",
    "TableModel": "onepos.table.model",
    "list_methods": "onepos.methods.registry",
    "load": "onepos.persistence",
    "make_classifier": "onepos.methods.registry",
    "one_positive": "onepos._utils.labels",
}
_SUBMODULES = (
    *("datasets", "doctor", "exceptions", "extending", "label_sets", "metrics", "pages"),
    *("persistence", "table", "testing", "training"),
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

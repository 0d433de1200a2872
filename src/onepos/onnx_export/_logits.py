"""From features to logits: one short recipe for each kind of model that can be written as a graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logit
from torch import nn

from onepos.methods._base import OnePositiveClassifier
from onepos.methods._classical import LOGIT_SLOPE
from onepos.methods._neural import NeuralClassifier
from onepos.methods.capped_softmax import CappedSoftmaxClassifier
from onepos.methods.d2ml import D2MLClassifier
from onepos.methods.forest import ForestClassifier
from onepos.methods.frequency import FrequencyClassifier
from onepos.methods.glocal import GLOCALClassifier
from onepos.methods.kernel import KernelClassifier
from onepos.methods.linear import LinearClassifier
from onepos.methods.logistic import LogisticClassifier
from onepos.methods.mlml import MLMLClassifier
from onepos.methods.softmax import SoftmaxClassifier
from onepos.networks import MLP, Dropout
from onepos.onnx_export._graph import Graph
from onepos.scaling import FeatureScaler

_INSTEAD = "Serve the model from Python with model.save(path) and onepos.load(path), or train one that can be exported."


def add_logits(graph: Graph, model: Any) -> str:
    """Add what computes the logits of ``"features"`` and return their name.

    Looked up by the function that scores rows, not by class: a method of yours that inherits it is exported, and one
    that scores rows in another way is refused instead of exported wrongly.
    """
    kind = type(model)
    recipe = _RECIPES.get(_scoring(kind))
    shared = kind.predict_proba is OnePositiveClassifier.predict_proba and kind.predict is OnePositiveClassifier.predict
    if issubclass(kind, NeuralClassifier):
        shared = shared and kind._network_logits is NeuralClassifier._network_logits
    if recipe is None or not shared:
        raise ValueError(f"{kind.__name__} predicts in a way that onepos cannot write as an ONNX graph. {_INSTEAD}")
    return recipe(graph, model)


def _scoring(kind: type) -> Any:
    """Return the function that tells how a class scores rows; for networks it is what they make of their output."""
    if issubclass(kind, NeuralClassifier) and kind._logits is NeuralClassifier._logits:
        return kind._from_network
    return getattr(kind, "_logits", None)


def _scaled(graph: Graph, scaler: FeatureScaler) -> str:
    values = "features" if graph.dtype == np.float32 else graph.cast("features", graph.dtype)
    if scaler.shift is None or scaler.factor is None:
        return values
    shifted = graph.apply("Sub", values, graph.numbers("shift", scaler.shift))
    scaled = graph.apply("Mul", shifted, graph.numbers("factor", scaler.factor))
    if graph.dtype == np.float32:
        return scaled
    # The library keeps scaled features in float32; rounding them here too keeps ties where they are.
    return graph.cast(graph.cast(scaled, np.float32), graph.dtype)


def _network(graph: Graph, model: Any) -> str:
    network = model.network_
    if type(network) is not MLP:
        raise ValueError(
            f"a network of your own ({type(network).__name__}) cannot be written as a graph by onepos. Export "
            "model.network_ with torch.onnx.export, after the scaling in model.scaler_, or give the method sizes, as "
            "in network=(256,)."
        )
    values = _scaled(graph, model.scaler_)
    for position, layer in enumerate(network):
        if isinstance(layer, nn.Linear):
            weights = graph.numbers(f"weights_{position}", layer.weight.detach().cpu().numpy().T)
            values = graph.affine(values, weights, graph.numbers(f"bias_{position}", layer.bias.detach().cpu().numpy()))
        elif isinstance(layer, nn.ReLU):
            values = graph.apply("Relu", values)
        elif not isinstance(layer, Dropout):  # which does nothing at prediction
            raise ValueError(f"the network was changed: it has a layer {type(layer).__name__}. {_INSTEAD}")
    return values


def _linear(graph: Graph, model: Any) -> str:
    slope = 1.0 if isinstance(model, LinearClassifier | LogisticClassifier) else LOGIT_SLOPE
    if getattr(model, "gamma_", None) is not None:
        raise ValueError(
            f"a kernel model needs its {model.coef_.shape[0]} landmark rows at prediction, which is not exported. Use "
            f"D2MLClassifier(kernel='linear'). {_INSTEAD}"
        )
    coef, intercept = graph.numbers("coef", slope * model.coef_), graph.numbers("intercept", slope * model.intercept_)
    return graph.affine(_scaled(graph, model.scaler_), coef, intercept)


def _frequency(graph: Graph, model: Any) -> str:
    n_rows = graph.apply("Shape", "features", start=0, end=1)
    n_labels = graph.constant("n_labels", np.array([len(model.classes_)], dtype=np.int64))
    shape = graph.apply("Concat", n_rows, n_labels, axis=0)
    return graph.apply("Expand", graph.numbers("logits", logit(model.frequency_)[None, :]), shape)


def _neighbors(graph: Graph, model: Any) -> str:
    raise ValueError(f"mlml searches its training rows at prediction, which is not exported. {_INSTEAD}")


def _logistic(graph: Graph, model: Any) -> str:
    if not model.single_label_:
        raise ValueError(f"logistic finds the level of every row by iteration, which is not exported. {_INSTEAD}")
    return _linear(graph, model)


def _forest(graph: Graph, model: Any) -> str:
    raise ValueError(f"forest walks through its trees at prediction, which is not exported. {_INSTEAD}")


def _kernel(graph: Graph, model: Any) -> str:
    raise ValueError(f"kernel compares rows with its landmarks at prediction, which is not exported. {_INSTEAD}")


def _capped(graph: Graph, model: Any) -> str:
    raise ValueError(f"capped finds the level of every row by iteration, which is not exported. {_INSTEAD}")


_RECIPES: dict[Any, Callable[[Graph, Any], str]] = {
    NeuralClassifier._from_network: _network,
    SoftmaxClassifier._from_network: _network,  # its softmax is that of the probabilities
    CappedSoftmaxClassifier._from_network: _capped,
    LinearClassifier._logits: _linear,
    LogisticClassifier._logits: _logistic,
    ForestClassifier._logits: _forest,
    KernelClassifier._logits: _kernel,
    GLOCALClassifier._logits: _linear,
    D2MLClassifier._logits: _linear,
    FrequencyClassifier._logits: _frequency,
    MLMLClassifier._logits: _neighbors,
}


def add_calibration(graph: Graph, model: Any, logits: str) -> str:
    """Add what ``calibrate`` learnt, and return the name of the logits behind it."""
    if not hasattr(model, "calibration_"):
        return logits
    if is_softmax(model):
        # What is calibrated are log-odds, and those of a probability near 1 are lost to rounding in a graph.
        raise ValueError(f"a calibrated softmax model is not exported. {_INSTEAD}")
    found = model.calibration_
    scaled = graph.apply("Mul", logits, graph.numbers("slope", np.array(found.slope)))
    return graph.apply("Add", scaled, graph.numbers("offsets", found.offsets))


def is_softmax(model: Any) -> bool:
    """Whether probabilities are the softmax of the logits, not each one's sigmoid."""
    return bool(model.single_label_) or _scoring(type(model)) is SoftmaxClassifier._from_network

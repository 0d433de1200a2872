"""Fitted models as ONNX graphs, for programs that have neither onepos nor torch."""

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from onepos._utils.files import write_durably
from onepos._utils.machine import require
from onepos.methods._base import OnePositiveClassifier
from onepos.rows.scaling import FeatureScaler
from onepos.training.networks import MLP, Dropout

__all__ = ["export_onnx"]

Precision: TypeAlias = Literal["double", "single"]
Array: TypeAlias = NDArray[Any]

#: Read by every runtime since the middle of 2022; nothing here needs a newer one.
OPSET, IR_VERSION = 17, 8
#: A protobuf message, and so an ONNX file with its weights inside, cannot be larger.
LARGEST_FILE = (1 << 31) - 1


class Graph:
    """Constants and nodes of a graph; methods return the name of what they added. The ``onnx`` package is optional."""

    def __init__(self, onnx: Any, precision: Precision) -> None:
        self.onnx = onnx
        self.dtype: Any = np.dtype(np.float64 if precision == "double" else np.float32)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def apply(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, name: str, values: Any) -> str:
        """Add an array as it is."""
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def numbers(self, name: str, values: Array) -> str:
        """Add an array of numbers to compute with."""
        # float32 weights of a network stay so in the file, which is half as large. The runtime widens them once.
        if values.dtype == np.float32 and self.dtype == np.float64:
            return self.cast(self.constant(name, values), np.float64)
        return self.constant(name, np.asarray(values).astype(self.dtype))

    def cast(self, name: str, dtype: Any, output: str | None = None) -> str:
        """Convert numbers to another type."""
        number = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.apply("Cast", name, output=output, to=number)

    def affine(self, values: str, name: str, weights: Array, offset: Array) -> str:
        """Add ``values @ weights + offset``; the constants are named after ``name``."""
        product = self.apply("MatMul", values, self.numbers(f"weights_{name}", weights))
        return self.apply("Add", product, self.numbers(f"bias_{name}", offset))

    def linear(self, scaler: FeatureScaler, weights: Array, offset: Array) -> str:
        """Add the logits of a model that is linear in the scaled features."""
        return self.affine(self._scaled(scaler), "linear", weights, offset)

    def network(self, scaler: FeatureScaler, network: nn.Module) -> str:
        """Add the logits of one of the library's own networks."""
        if type(network) is not MLP:
            raise ValueError(
                f"a network of your own ({type(network).__name__}) cannot be written as a graph by onepos. Export "
                "model.network_ with torch.onnx.export, after the scaling in model.scaler_, or give the method sizes, "
                "as in network=(256,)."
            )
        values = self._scaled(scaler)
        for position, layer in enumerate(network):
            if isinstance(layer, nn.Linear):
                weights, bias = (part.detach().cpu().numpy() for part in (layer.weight, layer.bias))
                values = self.affine(values, str(position), weights.T, bias)
            elif isinstance(layer, nn.ReLU):
                values = self.apply("Relu", values)
            elif not isinstance(layer, Dropout):  # which does nothing at prediction
                raise ValueError(f"the network was changed: it has a layer {type(layer).__name__}. {_INSTEAD}")
        return values

    def repeated(self, row: Array) -> str:
        """Add a row of logits that all rows have."""
        n_rows = self.apply("Shape", "features", start=0, end=1)
        n_labels = self.constant("n_labels", np.array([len(row)], dtype=np.int64))
        shape = self.apply("Concat", n_rows, n_labels, axis=0)
        return self.apply("Expand", self.numbers("logits", row[None, :]), shape)

    def _scaled(self, scaler: FeatureScaler) -> str:
        single = self.dtype == np.float32
        values = "features" if single else self.cast("features", self.dtype)
        if scaler.shift is None or scaler.factor is None:
            return values
        shifted = self.apply("Sub", values, self.numbers("shift", scaler.shift))
        scaled = self.apply("Mul", shifted, self.numbers("factor", scaler.factor))
        # The library keeps scaled features in float32; rounding them here too keeps ties where they are.
        return scaled if single else self.cast(self.cast(scaled, np.float32), self.dtype)

    def model(self, n_features: int, n_labels: int, facts: dict[str, str]) -> bytes:
        """Return the content of the file, checked against the rules of ONNX."""
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        describe = helper.make_tensor_value_info
        if sum(len(constant.raw_data) for constant in self.constants) >= LARGEST_FILE - (1 << 20):
            raise ValueError("the model's weights take 2 GiB or more, which one ONNX file cannot hold; save() can.")
        graph = helper.make_graph(
            self.nodes,
            "onepos",
            [describe("features", kinds.FLOAT, ["N", n_features])],
            [describe("probabilities", kinds.FLOAT, ["N", n_labels]), describe("sets", kinds.INT64, ["N", n_labels])],
            self.constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="onepos",
            producer_version=facts["onepos_version"],
        )
        helper.set_model_props(model, facts)
        self.onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


def export_onnx(model: OnePositiveClassifier, path: str | Path, *, precision: Precision = "double") -> Path:
    """Write a fitted model as an ONNX file, atomically: an interrupted export leaves the old file.

    The graph takes ``features``, float32 of shape (N, n_features), scales them as the model does, and returns
    ``probabilities``, float32, and ``sets``, int64 0/1, both of shape (N, n_labels). The sets are those of ``predict``,
    cut at the model's ``thresholds_``; after a fit on a 1-D y each row has one 1. The metadata hold the label names
    (``labels``, as JSON), the names of the features, the method and the version of onepos.

    Parameters
    ----------
    model : a fitted onepos classifier
        Any neural method with a network of the library's own, and ``frequency``; ``logistic`` fitted on a
        1-D y. Others raise ValueError.
    path : str or Path
        Its folder is made if it does not exist.
    precision : {"double", "single"}
        Precision of the graph. The library predicts in "double". "single" is for runtimes and devices without double
        precision. Probabilities then differ by about 1e-6, more where a feature is far from zero compared with its
        spread.

    Examples
    --------
    >>> import tempfile, numpy as np, onepos
    >>> from onepos.persistence.onnx import export_onnx
    >>> model = onepos.FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])
    >>> export_onnx(model, Path(tempfile.mkdtemp()) / "model.onnx").name
    'model.onnx'
    """
    onnx = require("onnx", extra="onnx", purpose="exporting to ONNX")
    if precision not in ("double", "single"):
        raise ValueError(f'precision must be "double" or "single"; got {precision!r}.')
    if not isinstance(model, OnePositiveClassifier):
        raise ValueError(
            f"expected a onepos classifier; got {type(model).__name__}. Of a TableModel export model.estimator_, and "
            "turn tables into features with model.encoder_."
        )
    check_is_fitted(model)
    graph = Graph(onnx, precision)
    logits = _logits(graph, model)
    if model.single_label_ or model._graph_output == "Softmax":
        if hasattr(model, "calibration_"):
            # Calibration works on log-odds, and those of a probability near 1 are lost to rounding in a graph.
            raise ValueError(f"a calibrated softmax model is not exported. {_INSTEAD}")
        probabilities = graph.apply("Softmax", logits, axis=1)
    else:
        if hasattr(model, "calibration_"):
            found = model.calibration_
            scaled = graph.apply("Mul", logits, graph.numbers("slope", np.array(found.slope)))
            components = graph.apply("MatMul", logits, graph.numbers("components", found.components))
            logits = graph.apply("Add", scaled, graph.affine(components, "calibration", found.weights, found.offsets))
        probabilities = graph.apply("Sigmoid", logits)
    _add_sets(graph, model, logits, probabilities)
    graph.cast(probabilities, np.float32, output="probabilities")
    path = Path(path)
    content = graph.model(model.n_features_in_, len(model.classes_), _facts(model))
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_durably(path, content)


def _facts(model: OnePositiveClassifier) -> dict[str, str]:
    """Return the metadata of the file; values other than texts are JSON."""
    from onepos import __version__

    facts = {"onepos_version": __version__, "method": type(model).__name__}
    # A name that JSON does not know, such as a date, is written as text.
    facts["labels"] = json.dumps(model.classes_.tolist(), ensure_ascii=False, default=str)
    if hasattr(model, "feature_names_in_"):
        facts["features"] = json.dumps([str(name) for name in model.feature_names_in_], ensure_ascii=False)
    if hasattr(model, "thresholds_"):
        facts["thresholds"] = json.dumps(model.thresholds_.tolist())
    facts["output"] = "one class per row" if model.single_label_ else "label sets"
    return facts


_INSTEAD = "Serve the model from Python with model.save(path) and onepos.load(path), or train one that can be exported."


#: The methods of a class that turn features into predictions.
_SCORING = ["_ranking", "_final_logits", "_logits", "_log_shares", "_marginal", "_network_logits", "_from_network"]
_SCORING += ["decision_function", "predict", "predict_proba"]


def _logits(graph: Graph, model: OnePositiveClassifier) -> str:
    """Add the logits of ``"features"``, as the model's class says, unless a subclass scores rows in another way."""
    kinds = type(model).__mro__
    says = next(place for place, kind in enumerate(kinds) if "_graph_logits" in vars(kind))
    changed = any(name in vars(kind) for kind in kinds[:says] for name in _SCORING)
    try:
        return OnePositiveClassifier._graph_logits(model, graph) if changed else model._graph_logits(graph)
    except NotImplementedError as error:
        raise ValueError(f"{error}. {_INSTEAD}") from error


#: Share by which a threshold is lowered. A threshold may equal the probability of training rows to the last bit. Other
#: arithmetic than the library's must not put such rows on the other side.
SLACK = {"float64": 1e-9, "float32": 1e-6}


def _add_sets(graph: Graph, model: Any, logits: str, probabilities: str) -> None:
    """Add the output ``"sets"``: 0/1, with a single 1 per row if the model was fitted on a 1-D y."""
    if model.single_label_:
        chosen = _largest(graph, logits, len(model.classes_))
    elif not hasattr(model, "thresholds_"):
        chosen = graph.apply("GreaterOrEqual", probabilities, graph.numbers("half", np.array(0.5)))
    else:
        limits = np.asarray(model.thresholds_)
        lowered = graph.numbers("thresholds", limits * (1.0 - SLACK[graph.dtype.name]))
        chosen = graph.apply("GreaterOrEqual", probabilities, lowered)
        if model.at_least_one_:
            chosen = _filled(graph, probabilities, chosen, limits)
    graph.cast(chosen, np.int64, output="sets")


def _largest(graph: Graph, values: str, n_labels: int) -> str:
    """Mark the first largest entry of each row."""
    position = graph.apply("ArgMax", values, axis=1, keepdims=1)
    return graph.apply("Equal", position, graph.constant("positions", np.arange(n_labels, dtype=np.int64)[None, :]))


def _filled(graph: Graph, probabilities: str, chosen: str, limits: Any) -> str:
    """Put the label nearest to its threshold, in log-odds, into sets that are empty."""
    smallest = float(np.finfo(graph.dtype).tiny)
    tiny, one = graph.numbers("tiny", np.array(smallest)), graph.numbers("one", np.array(1.0))
    present = graph.apply("Log", graph.apply("Max", probabilities, tiny))
    absent = graph.apply("Log", graph.apply("Max", graph.apply("Sub", one, probabilities), tiny))
    odds = np.log(np.maximum(limits, smallest)) - np.log(np.maximum(1.0 - limits, smallest))
    distance = graph.apply("Sub", graph.apply("Sub", present, absent), graph.numbers("odds", odds))
    most = graph.apply("ReduceMax", graph.cast(chosen, np.int64), axes=[1], keepdims=1)
    empty = graph.apply("Equal", most, graph.constant("none", np.array(0, dtype=np.int64)))
    return graph.apply("Or", chosen, graph.apply("And", empty, _largest(graph, distance, len(limits))))

"""An ONNX graph in the making: constants in, nodes on top, a checked model out."""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Precision: TypeAlias = Literal["double", "single"]
Array: TypeAlias = NDArray[Any]

#: Read by every runtime since the middle of 2022; nothing here needs a newer one.
OPSET = 17
IR_VERSION = 8

#: A protobuf message, and so an ONNX file with its weights inside, cannot be larger.
LARGEST_FILE = (1 << 31) - 1


class Graph:
    """Collects constants and nodes; every method returns the name of what it made.

    Parameters
    ----------
    onnx : module
        Passed in, as it is optional.
    precision : {"double", "single"}
        In what numbers the graph computes.
    """

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
        """Add an array of numbers to compute with.

        Weights of a network are float32 and stay so in the file, which is half as large; the runtime widens them once.
        """
        if values.dtype == np.float32 and self.dtype == np.float64:
            return self.cast(self.constant(name, values), np.float64)
        return self.constant(name, np.asarray(values).astype(self.dtype))

    def cast(self, name: str, dtype: Any, output: str | None = None) -> str:
        """Convert numbers to another type."""
        number = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.apply("Cast", name, output=output, to=number)

    def affine(self, values: str, weights: str, offset: str) -> str:
        """``values @ weights + offset``."""
        return self.apply("Add", self.apply("MatMul", values, weights), offset)

    def model(self, n_features: int, n_labels: int, facts: dict[str, str]) -> bytes:
        """Return the file's content; a graph that breaks ONNX's rules raises here, before anything is written."""
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        if sum(len(constant.raw_data) for constant in self.constants) >= LARGEST_FILE - (1 << 20):
            raise ValueError("the model's weights take 2 GiB or more, which one ONNX file cannot hold; save() can.")
        graph = helper.make_graph(
            self.nodes,
            "onepos",
            [helper.make_tensor_value_info("features", kinds.FLOAT, ["N", n_features])],
            [
                helper.make_tensor_value_info("probabilities", kinds.FLOAT, ["N", n_labels]),
                helper.make_tensor_value_info("sets", kinds.INT64, ["N", n_labels]),
            ],
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
        content: bytes = model.SerializeToString()
        return content

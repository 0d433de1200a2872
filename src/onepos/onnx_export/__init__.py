"""Fitted models as ONNX graphs, for programs that have neither onepos nor torch."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onepos._files import write_durably
from onepos._optional import require
from onepos.onnx_export._graph import Graph, Precision

if TYPE_CHECKING:
    from onepos.methods._base import OnePositiveClassifier

__all__ = ["export_onnx"]


def export_onnx(model: "OnePositiveClassifier", path: str | Path, *, precision: Precision = "double") -> Path:
    """Write a fitted model as an ONNX file, atomically: an interrupted export leaves what was there before.

    The graph takes ``features``, float32 of shape (N, n_features), scales them as the model does, and returns
    ``probabilities``, float32, and ``sets``, int64 0/1, both of shape (N, n_labels). The sets are those of ``predict``:
    cut at the model's ``thresholds_``; after a fit on a 1-D y the one class has the 1. The metadata hold the label
    names (``labels``, as JSON), the names of the features, the method and the version of onepos.

    Parameters
    ----------
    model : a fitted onepos classifier
        Any neural method with a network of the library's own, ``linear``, ``glocal``, ``frequency``, and ``d2ml``
        without a kernel; ``logistic`` fitted on a 1-D y. Others raise ValueError.
    path : str or Path
        Its folder is made if need be.
    precision : {"double", "single"}
        In what numbers the graph computes. "double" is what the library predicts with. "single" is for runtimes and
        devices that have no double; probabilities then differ by about 1e-6, more where a feature is far from zero
        compared with its spread.

    Examples
    --------
    >>> import tempfile, numpy as np, onepos
    >>> from onepos.onnx_export import export_onnx
    >>> model = onepos.FrequencyClassifier().fit(np.zeros((4, 1)), np.eye(3)[[0, 0, 1, 2]])
    >>> export_onnx(model, Path(tempfile.mkdtemp()) / "model.onnx").name
    'model.onnx'
    """
    onnx = require("onnx", extra="onnx", purpose="exporting to ONNX")
    from sklearn.utils.validation import check_is_fitted

    from onepos.methods._base import OnePositiveClassifier
    from onepos.onnx_export._logits import add_calibration, add_logits, is_softmax
    from onepos.onnx_export._sets import add_sets

    if precision not in ("double", "single"):
        raise ValueError(f'precision must be "double" or "single"; got {precision!r}.')
    if not isinstance(model, OnePositiveClassifier):
        raise ValueError(
            f"only onepos classifiers are exported; got {type(model).__name__}. Of a model of tables export "
            "model.estimator_, and turn tables into features with model.encoder_."
        )
    check_is_fitted(model)
    graph = Graph(onnx, precision)
    logits = add_calibration(graph, model, add_logits(graph, model))
    probabilities = graph.apply("Softmax", logits, axis=1) if is_softmax(model) else graph.apply("Sigmoid", logits)
    add_sets(graph, model, logits, probabilities)
    graph.cast(probabilities, np.float32, output="probabilities")
    path = Path(path)
    content = graph.model(model.n_features_in_, len(model.classes_), _facts(model))
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_durably(path, content)


def _facts(model: "OnePositiveClassifier") -> dict[str, str]:
    """Metadata of the file; what is not text is JSON."""
    from onepos import __version__

    facts = {"onepos_version": __version__, "method": type(model).__name__}
    # A name that JSON does not know, such as a date, is written as text.
    facts["labels"] = json.dumps(model.classes_.tolist(), ensure_ascii=False, default=str)
    if hasattr(model, "feature_names_in_"):
        facts["features"] = json.dumps([str(name) for name in model.feature_names_in_], ensure_ascii=False)
    if hasattr(model, "thresholds_"):
        facts["thresholds"] = json.dumps(model.thresholds_.tolist())
    facts["output"] = "one class a row" if model.single_label_ else "label sets"
    return facts

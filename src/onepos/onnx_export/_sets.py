"""From probabilities to label sets, as ``predict`` makes them."""

from typing import Any

import numpy as np

from onepos.onnx_export._graph import Graph

#: By which part of itself a threshold is lowered. A threshold may be the probability of training rows to the last bit;
#: other arithmetic than the library's must not put such rows on the other side.
SLACK = {"float64": 1e-9, "float32": 1e-6}


def add_sets(graph: Graph, model: Any, logits: str, probabilities: str) -> str:
    """Add the output ``"sets"``: 0/1, with a single 1 a row if the model was fitted on a 1-D y."""
    if model.single_label_:
        chosen = _largest(graph, logits, len(model.classes_))
    elif not hasattr(model, "thresholds_"):
        half = graph.numbers("half", np.array(0.5))
        chosen = graph.apply("GreaterOrEqual", probabilities, half)
    else:
        limits = np.asarray(model.thresholds_)
        lowered = graph.numbers("thresholds", limits * (1.0 - SLACK[graph.dtype.name]))
        chosen = graph.apply("GreaterOrEqual", probabilities, lowered)
        if model.at_least_one_:
            chosen = _filled(graph, probabilities, chosen, limits)
    return graph.cast(chosen, np.int64, output="sets")


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

"""Tables with named columns: read them, train on them, predict, evaluate and complete them."""

from onepos.table.embedders import Embedder, OnnxEmbedder, PictureEmbedder, SentenceEmbedder
from onepos.table.encoder import ColumnEncoder
from onepos.table.evaluation import Evaluation, KnownLabels, evaluate_table, known_labels
from onepos.table.files import TableData, read_chunks, read_table
from onepos.table.kinds import Tally
from onepos.table.model import TableModel
from onepos.table.prediction import (
    Completed,
    Completion,
    Output,
    Predicted,
    complete_file,
    complete_table,
    predict_file,
    read_as_trained,
    reading_options,
)

__all__ = [
    "ColumnEncoder",
    "Completed",
    "Completion",
    "Embedder",
    "Evaluation",
    "KnownLabels",
    "OnnxEmbedder",
    "Output",
    "PictureEmbedder",
    "Predicted",
    "SentenceEmbedder",
    "TableData",
    "TableModel",
    "Tally",
    "complete_file",
    "complete_table",
    "evaluate_table",
    "known_labels",
    "predict_file",
    "read_as_trained",
    "read_chunks",
    "read_table",
    "reading_options",
]

"""Tables with named columns: read them, train on them, predict, evaluate and complete them."""

from onepos.table.embedders import Embedder, PictureEmbedder, SentenceEmbedder
from onepos.table.encoder import ColumnEncoder, Tally
from onepos.table.evaluation import Evaluation, Truth, calibrate_table, evaluate_table, find_truth
from onepos.table.files import TableData, TableWriter, read_chunks, read_table
from onepos.table.model import TableModel
from onepos.table.prediction import (
    Completion,
    Output,
    Predicted,
    complete_table,
    predict_file,
    reading_options,
)
from onepos.table.scores import bootstrap_intervals, complete_values, single_positive_values
from onepos.table.tags import apply_decisions, join_tags, row_ids, split_tags, tag_indicator

__all__ = [
    "ColumnEncoder",
    "Completion",
    "Embedder",
    "Evaluation",
    "Output",
    "PictureEmbedder",
    "Predicted",
    "SentenceEmbedder",
    "TableData",
    "TableModel",
    "TableWriter",
    "Tally",
    "Truth",
    "apply_decisions",
    "bootstrap_intervals",
    "calibrate_table",
    "complete_table",
    "complete_values",
    "evaluate_table",
    "find_truth",
    "join_tags",
    "predict_file",
    "read_chunks",
    "read_table",
    "reading_options",
    "row_ids",
    "single_positive_values",
    "split_tags",
    "tag_indicator",
]

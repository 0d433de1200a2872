"""Tables with named columns: read them, make numbers of them, train on them, keep it all in one file."""

from onepos.table.completion import Completion, complete_table
from onepos.table.decisions import apply_decisions, row_ids
from onepos.table.encoder import ColumnEncoder, Tally
from onepos.table.evaluation import Evaluation, Truth, calibrate_table, evaluate_table, find_truth
from onepos.table.model import TableModel
from onepos.table.reading import TableData, read_chunks, read_table
from onepos.table.scores import bootstrap_intervals, complete_values, single_positive_values
from onepos.table.sharded import fit_shards
from onepos.table.streaming import Output, Predicted, predict_file, reading_options
from onepos.table.tags import join_tags, split_tags, tag_indicator
from onepos.table.writing import TableWriter

__all__ = [
    "ColumnEncoder",
    "Completion",
    "Evaluation",
    "Output",
    "Predicted",
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
    "fit_shards",
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

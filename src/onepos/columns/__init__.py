"""Tables with named columns: read them, make numbers of them, train on them, keep it all in one file."""

from onepos.columns._formats import TableData
from onepos.columns._truth import Truth, find_truth
from onepos.columns.calibrating import calibrate_table
from onepos.columns.completion import Completion, complete_table
from onepos.columns.decisions import apply_decisions, row_ids
from onepos.columns.encoder import ColumnEncoder, Tally
from onepos.columns.evaluation import Evaluation, evaluate_table
from onepos.columns.reading import read_chunks, read_table
from onepos.columns.scores import bootstrap_intervals, complete_values, single_positive_values
from onepos.columns.sharded import fit_shards
from onepos.columns.streaming import Output, Predicted, predict_file, reading_options
from onepos.columns.table_model import TableModel
from onepos.columns.tags import join_tags, split_tags, tag_indicator
from onepos.columns.writing import TableWriter

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

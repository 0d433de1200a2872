"""Data: the paper's data sets, readers for the usual file formats, and generators."""

from onepos.datasets._catalogue import dataset_info
from onepos.datasets._fetch import fetch_dataset
from onepos.datasets._generators import make_digit_scenes, make_known_posterior
from onepos.datasets._load import list_datasets, load_dataset, read, verify_dataset
from onepos.datasets._single_positive import make_single_positive, split, split_indices
from onepos.datasets._table import Table

__all__ = [
    "Table",
    "dataset_info",
    "fetch_dataset",
    "list_datasets",
    "load_dataset",
    "make_digit_scenes",
    "make_known_posterior",
    "make_single_positive",
    "read",
    "split",
    "split_indices",
    "verify_dataset",
]

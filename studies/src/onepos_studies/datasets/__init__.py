"""The paper's data sets: catalogue, downloads, and readers of ARFF, MAT and NPZ files."""

from onepos_studies.datasets._catalogue import dataset_info
from onepos_studies.datasets._fetch import fetch_dataset
from onepos_studies.datasets._load import list_datasets, load_dataset, read, verify_dataset
from onepos_studies.datasets._table import Table

__all__ = ["Table", "dataset_info", "fetch_dataset", "list_datasets", "load_dataset", "read", "verify_dataset"]

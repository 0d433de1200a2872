"""Studies: an evaluation written down in a file, run cell by cell, resumable, with every result kept."""

from onepos_studies.study.cells import Cell, cells_of
from onepos_studies.study.folder import ResultsFolder, load_results
from onepos_studies.study.parse import parse_study, read_study, shipped_studies
from onepos_studies.study.runner import run_study
from onepos_studies.study.spec import Study

__all__ = [
    "Cell",
    "ResultsFolder",
    "Study",
    "cells_of",
    "load_results",
    "parse_study",
    "read_study",
    "run_study",
    "shipped_studies",
]

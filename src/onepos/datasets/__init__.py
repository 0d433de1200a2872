"""Data: generators, the paper's protocol, and a small real table; benchmark sets are in onepos-studies."""

from onepos.datasets._generators import make_digit_scenes, make_known_posterior
from onepos.datasets._single_positive import make_single_positive, split, split_indices
from onepos.datasets._titles import load_titles

__all__ = ["load_titles", "make_digit_scenes", "make_known_posterior", "make_single_positive", "split", "split_indices"]

"""Data: generators and the paper's protocol; benchmark sets are in onepos-studies."""

from onepos.datasets._generators import make_digit_scenes, make_known_posterior
from onepos.datasets._single_positive import make_single_positive, split, split_indices

__all__ = ["make_digit_scenes", "make_known_posterior", "make_single_positive", "split", "split_indices"]

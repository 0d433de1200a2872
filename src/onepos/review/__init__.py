"""Reviewing suggested labels: a page for a person (``write_review``), and what the person decided (``read_decisions``).

The page is one HTML file. It loads and sends nothing; decisions stay in the browser until they are saved as CSV.
"""

from onepos.review.decisions import read_decisions
from onepos.review.page import write_review

__all__ = ["read_decisions", "write_review"]

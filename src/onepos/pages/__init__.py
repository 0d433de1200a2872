"""The report: summarise (plain values) → render (one HTML file that needs nothing else)."""

from onepos.pages.demo_report import render, write_report
from onepos.pages.demo_summary import METRIC_TEXT, Example, Mark, summarise
from onepos.pages.model_page import model_report
from onepos.pages.rendering import require_report

__all__ = ["METRIC_TEXT", "Example", "Mark", "model_report", "render", "require_report", "summarise", "write_report"]

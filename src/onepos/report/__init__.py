"""The report: summarise (plain values) → render (one HTML file that needs nothing else)."""

from onepos.report.example import Example, Mark
from onepos.report.model_page import model_report
from onepos.report.render import render, require_report, write_report
from onepos.report.summarise import METRIC_TEXT, summarise

__all__ = ["METRIC_TEXT", "Example", "Mark", "model_report", "render", "require_report", "summarise", "write_report"]

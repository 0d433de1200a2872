"""Self-contained HTML pages: the report of a model, the review page, and the demo that writes both."""

from onepos.pages.model_page import model_report
from onepos.pages.style import require_report

__all__ = ["model_report", "require_report"]

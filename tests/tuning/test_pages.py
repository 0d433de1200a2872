"""The examples of the pages on tuning and on production run as printed."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "needs"), [("tuning", "optuna"), ("production", "onnxruntime")])
def test_python_blocks_run_in_sequence(page, needs, tmp_path, monkeypatch):
    pytest.importorskip(needs)
    monkeypatch.chdir(tmp_path)
    namespace = {}
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for source in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(source, page, "exec"), namespace)

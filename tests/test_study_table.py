"""The committed tables are what the committed results say."""

import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).parents[1] / "studies" / "seven_sets"


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDY))
    sys.modules.pop("run", None)  # the benchmarks have a module of that name too
    import table as module

    yield module
    for name in ("table", "run"):
        sys.modules.pop(name, None)


def test_tables_are_in_step_with_the_results(table):
    full, short = table.render()
    assert (STUDY / "TABLE.md").read_text(encoding="utf-8") == full
    assert short in (STUDY.parents[1] / "README.md").read_text(encoding="utf-8")


def test_every_cell_was_chosen_on_validation_alone(table):
    """The chosen setting is the best of those tried by validation average precision; later trials reuse trial 0's."""
    rows = table.load_results()
    for (dataset, method, trial), row in rows.items():
        best = max(tried["average_precision"] for tried in row["tried"])
        assert row["validation_average_precision"] == best
        if len(row["tried"]) == 1 and trial:
            assert row["setting"] == rows[(dataset, method, 0)]["setting"]


def test_published_values_are_complete(table):
    paper = table.published()
    assert len(paper) == 540
    assert set(paper.index.get_level_values("metric")) == set(table.METRICS)
    assert paper.loc[("average_precision", "scene", "smile"), "mean"].item() == 0.841

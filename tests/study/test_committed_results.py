"""The committed rows of shipped studies are rows of those studies as they are now, each once and each good."""

from pathlib import Path

import pytest

from onepos.study import cells_of, load_results, read_study

STUDIES = Path(__file__).parents[2] / "studies"
FILES = {"smile-paper": STUDIES / "smile_paper" / "results.parquet"}


@pytest.mark.parametrize("name", FILES)
def test_rows_belong_to_the_study(name):
    frame = load_results(FILES[name])
    study, _ = read_study(name)
    known = {cell.id: cell for cell in cells_of(study)}
    assert set(frame["cell"]) <= set(known)
    assert frame["cell"].is_unique
    assert (frame["status"] == "ok").all()
    assert set(frame["study_hash"]) == {study.content_hash}
    for row in frame.to_dict("records"):
        cell = known[row["cell"]]
        found = (row["dataset"], row["method"], row["trial"], row["selection"])
        assert found == (cell.dataset, cell.method, cell.trial, cell.rule)

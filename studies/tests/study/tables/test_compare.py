"""Ours beside the paper's, and the paper's numbers themselves."""

import numpy as np
import pytest

from onepos.methods.registry import installed_methods
from onepos.metrics import METRICS
from onepos_studies.study.tables import (
    PAPER_METHODS,
    SUBSTITUTES,
    compare,
    in_stds,
    load_published,
    published_value,
)
from table_frames import make_frame

METHODS = installed_methods()


def test_published_is_complete_and_under_our_names():
    paper = load_published()
    assert len(paper) == 540
    assert not paper.isna().any().any()
    assert set(paper["metric"]) == set(METRICS)
    assert set(paper["method"]) == set(PAPER_METHODS.values()) <= set(METHODS)
    assert len(paper.drop_duplicates(["metric", "dataset", "method"])) == 540
    assert set(SUBSTITUTES.values()) < set(paper["dataset"])
    assert published_value("ranking_loss", "tmc2007", "smile-si") == (0.048, 0.0)  # the paper's Table 4


def test_a_caller_cannot_change_the_published_values():
    paper = load_published()
    paper["mean"] = 0.0
    assert load_published()["mean"].min() > 0


def test_hand_worked():
    """Scene, SMILE, average precision: the paper has 0.841 ± 0.070."""
    grid = compare(make_frame({("scene", "smile"): [0.86, 0.88]}), metrics=["average_precision"])
    pair = grid.data.iloc[0]
    spread = np.sqrt(((0.01 * np.sqrt(2)) ** 2 + 0.07**2) / 2)
    assert (pair["paper_mean"], pair["paper_std"]) == (0.841, 0.07)
    assert pair["difference"] == pytest.approx(0.029)
    assert pair["in_stds"] == pytest.approx(0.029 / spread)
    assert pair["same_features"]


@pytest.mark.parametrize(
    ("difference", "first", "second", "expected"),
    [(0, 0, 0, 0), (1e-17, 0, 0, 0), (0.1, 0, 0, np.inf), (-0.1, 0, 0, -np.inf), (0.3, 0.4, 0.2, 0.3 / np.sqrt(0.1))],
)
def test_units_of_spread(difference, first, second, expected):
    assert in_stds(difference, first, second) == pytest.approx(expected)


def test_one_trial_has_no_known_spread():
    grid = compare(make_frame({("scene", "smile"): [0.9]}), metrics=["average_precision"])
    assert np.isnan(grid.data["in_stds"][0])
    assert [cell.text for cell in grid.rows[0]][3:7] == [".900", ".841±.070", "+.059", "–"]


def test_substitutes_meet_the_papers_set_and_are_flagged():
    frame = make_frame({("espgame-hue", "smile"): [0.25, 0.27], ("scene", "smile"): [0.8, None]})
    grid = compare(frame, metrics=["average_precision"])
    assert grid.data["paper_mean"].tolist() == [0.259, 0.841]
    assert [row[-1].text for row in grid.rows] == ["other", "paper"]
    assert [row[3].mark for row in grid.rows] == ["", "†1"]
    assert any(note.startswith("other features") for note in grid.notes)


def test_what_the_paper_does_not_have_is_left_out():
    frame = make_frame({("scene", "forest"): [0.8], ("my set", "smile"): [0.8], ("scene", "an"): [None]})
    grid = compare(frame)
    assert "in_stds" in grid.data.columns
    assert grid.rows == ()


def test_the_paper_beside_itself_differs_nowhere(paper_results):
    data = compare(paper_results).data
    assert len(data) == 540
    assert (data["difference"] == 0).all()

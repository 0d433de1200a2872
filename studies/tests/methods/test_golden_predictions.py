"""The methods of this package behave as they once did, or declare another revision."""

import json
from importlib.metadata import entry_points

import pytest

from golden_predictions import STUDIES, check, fitted

STORED = json.loads(STUDIES.read_text(encoding="utf-8"))


def test_every_method_is_there():
    points = entry_points(group="onepos.methods")
    assert sorted(STORED) == sorted(point.name for point in points if point.module.startswith("onepos_studies"))


@pytest.mark.parametrize("case", sorted(STORED))
def test_predictions_and_losses_are_those_kept(case):
    check(case, STORED[case], fitted(case))

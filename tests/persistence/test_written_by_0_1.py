"""Model files of version 0.1 open, and predict what they predicted when they were written."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import onepos

FOLDER = Path(__file__).parent / "written_by_0_1"
STORED = json.loads((FOLDER / "expected.json").read_text())


def test_every_file_has_its_predictions():
    assert {path.stem for path in FOLDER.glob("*.onepos")} == set(STORED["models"])
    assert STORED["version"] == "0.1.0"


@pytest.mark.parametrize("name", [name for name in STORED["models"] if name != "table"])
def test_estimator(name):
    X = pd.DataFrame(STORED["rows"])
    expected = STORED["models"][name]
    model = onepos.load(FOLDER / f"{name}.onepos")
    assert model.classes_.tolist() == ["red", "green", "blue"]
    assert np.allclose(model.predict_proba(X), expected["probabilities"], rtol=0, atol=1e-6)
    assert model.predict(X).tolist() == expected["sets"]


@pytest.mark.parametrize("name", [name for name in STORED["models"] if name != "table"])
def test_a_file_saved_again_by_this_version_predicts_the_same(name, tmp_path):
    X = pd.DataFrame(STORED["rows"])
    model = onepos.load(FOLDER / f"{name}.onepos")
    again = onepos.load(model.save(tmp_path / "again"))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))

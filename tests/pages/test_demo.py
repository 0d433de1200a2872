"""The demo, on few pictures: it is complete, repeatable, and its numbers follow from its files."""

import base64
import io
import json

import numpy as np
import pandas as pd
import pytest
import torch

from onepos._utils.context import progress_to
from onepos.pages.demo import BASELINES, METHOD, compare, describe, digit_network, png_address, run_demo

TINY = {"n_train": 120, "n_test": 60, "max_epochs": 3}


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def result(tmp_path_factory, told):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with progress_to(lambda step, share: told.append((step, share))):
        return run_demo(out=out, random_state=3, **TINY)


def test_every_method_is_scored(result):
    assert tuple(result.scores.index) == (*BASELINES, METHOD)
    assert list(result.scores.columns) == ["suggested", "precision", "recall", "average_precision"]
    assert result.scores.drop(columns="suggested").map(lambda share: 0 <= share <= 1).all(axis=None)


def test_the_headline_is_what_the_completed_table_says(result):
    table = pd.read_csv(result.files["completed"], dtype=str)
    assert list(table.columns) == ["id", "tag", "completed", "truth"]
    suggested = right = hidden = 0
    for row in table.itertuples():
        made, true = set(row.completed.split(";")), set(row.truth.split(";"))
        assert row.tag in made & true
        suggested += len(made - {row.tag})
        right += len(made & true - {row.tag})
        hidden += len(true) - 1
    own = result.scores.loc[METHOD]
    assert (own["suggested"], result.facts["hidden"]) == (suggested, hidden)
    assert own["precision"] == pytest.approx(right / suggested)
    assert own["recall"] == pytest.approx(right / hidden)
    sentence = describe(result.scores, result.facts)
    assert f"suggests {suggested:,} tags. Of these, {right / suggested:.0%} are true" in sentence
    assert sentence in result.files["report"].read_text(encoding="utf-8")


def test_the_table_can_be_fitted_again(result):
    table = pd.read_csv(result.files["table"], dtype={"tag": str})
    completed = pd.read_csv(result.files["completed"], dtype=str)
    assert table[["id", "tag"]].equals(completed[["id", "tag"]])
    assert table.shape == (TINY["n_train"], 2 + 400)


def test_pages_are_whole(result):
    for name in ("review", "report"):
        assert result.files[name].read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_facts_are_plain_values(result):
    assert json.loads(json.dumps(dict(result.facts))) == result.facts
    assert result.facts["hidden"] == round((result.facts["mean_labels"] - 1) * TINY["n_train"])


def test_progress_runs_from_nothing_to_all(told, result):
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_equal_seeds_give_equal_results_and_others_do_not(result, tmp_path):
    again = run_demo(out=tmp_path, random_state=3, **TINY)
    pd.testing.assert_frame_equal(again.scores, result.scores, check_exact=True)
    assert again.files["completed"].read_bytes() == result.files["completed"].read_bytes()
    other = run_demo(out=tmp_path, random_state=4, **TINY)
    assert not np.allclose(other.scores, again.scores)


def test_the_number_of_threads_is_given_back(tmp_path):
    before = torch.get_num_threads()
    run_demo(out=tmp_path, n_train=90, n_test=20, max_epochs=1)
    assert torch.get_num_threads() == before


def test_ctrl_c_in_training_ends_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.Unflatten, "forward", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_demo(out=tmp_path, **TINY)
    assert not (tmp_path / "report.html").exists()


def _interrupt(self, features):
    raise KeyboardInterrupt


def test_only_hidden_labels_count():
    truth = np.array([[1, 1, 0], [1, 0, 0]])
    observed = np.array([[1, 0, 0], [1, 0, 0]])
    sets = np.array([[1, 1, 1], [0, 0, 1]])
    found = compare(truth, observed, sets, truth, truth)
    assert found == {"suggested": 3, "precision": pytest.approx(1 / 3), "recall": 1.0, "average_precision": 1.0}
    assert compare(truth, truth, truth, truth, truth)["precision"] == 0.0


def test_the_network_does_not_care_where_a_pattern_is():
    """Pixels in the middle, and the same moved by the two pixels of the pooling, have the same logits."""
    torch.manual_seed(0)
    network = digit_network(400, 10).eval()
    first, moved = torch.zeros(2, 20, 20)
    first[8:10, 8:10] = moved[10:12, 10:12] = torch.rand(2, 2)
    with torch.no_grad():
        assert torch.allclose(network(first.reshape(1, -1)), network(moved.reshape(1, -1)), atol=1e-6)


def test_png_holds_the_picture():
    from PIL import Image

    png = base64.b64decode(png_address(np.array([[0.0, 1.0, 0.5]])).partition(",")[2])
    pixels = np.asarray(Image.open(io.BytesIO(png)))
    assert pixels.shape == (12, 36)
    assert pixels[::12, ::12].tolist() == [[255, 0, 128]]

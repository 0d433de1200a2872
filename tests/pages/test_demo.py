"""The demo, on few rows: it is complete, repeatable, and its numbers follow from its files."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from onepos._utils.context import progress_to
from onepos.datasets import load_titles
from onepos.pages.demo import METHOD, OTHERS, draw_tags, run_demo, score

TINY = {"n_rows": 200}


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def result(tmp_path_factory, told):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with progress_to(lambda step, share: told.append((step, share))):
        return run_demo(out=out, random_state=3, **TINY)


def test_the_titles_are_what_their_description_says():
    titles = load_titles()
    genres = titles["genres"].str.split(";")
    assert len(titles) == titles["id"].nunique() == 1500
    assert genres.map(len).min() == 2
    assert genres.explode().nunique() == 8
    assert titles[["title", "description"]].map(len).min(axis=None) > 0


def test_every_method_is_scored(result):
    assert tuple(result.scores.index) == (METHOD, *OTHERS)
    assert result.scores.map(lambda share: 0 <= share <= 1).all(axis=None)


def test_the_headline_is_what_the_files_say(result):
    completed = pd.read_csv(result.files["completed"], dtype=str, keep_default_na=False).set_index("id")
    truth = pd.read_csv(result.files["truth"], dtype=str).set_index("id")["genres"]
    suggested = right = hidden = 0
    for row in completed.itertuples():
        made, true = set(row.suggested.split(";")), set(truth[row.Index].split(";"))
        assert row.genre in made & true
        suggested += len(made) - 1
        right += len(made & true) - 1
        hidden += len(true) - 1
    assert (result.facts["suggested"], result.facts["hidden"]) == (suggested, hidden)
    own = result.scores.loc[METHOD]
    assert own["precision"] == pytest.approx(right / suggested)
    assert own["recall"] == pytest.approx(right / hidden)
    assert result.rows["suggested"].map(";".join).tolist() == completed["suggested"].tolist()


def test_the_review_page_is_whole(result):
    assert result.files["review"].read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_facts_are_plain_values(result):
    assert json.loads(json.dumps(dict(result.facts))) == result.facts
    assert result.facts["hidden"] == round((result.facts["mean_labels"] - 1) * TINY["n_rows"])


def test_progress_runs_from_nothing_to_all(told, result):
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_equal_seeds_give_equal_results_and_others_do_not(result, tmp_path):
    before = torch.get_num_threads()
    again = run_demo(out=tmp_path, random_state=3, **TINY)
    assert torch.get_num_threads() == before
    pd.testing.assert_frame_equal(again.scores, result.scores, check_exact=True)
    assert again.files["completed"].read_bytes() == result.files["completed"].read_bytes()
    genres = load_titles()["genres"]
    assert draw_tags(genres, 3)[0] != draw_tags(genres, 4)[0]


def test_the_given_genre_is_drawn_evenly():
    given, truth = draw_tags(pd.Series(["a;b", "a;b;c"] * 3000), 0)
    assert truth[:2] == [["a", "b"], ["a", "b", "c"]]
    for rows, size in ((given[::2], 2), (given[1::2], 3)):
        shares = pd.Series(rows).value_counts(normalize=True)
        np.testing.assert_allclose(shares, 1 / size, atol=0.04)


def test_ctrl_c_in_training_ends_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.Linear, "forward", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_demo(out=tmp_path, **TINY)


def _interrupt(self, features):
    raise KeyboardInterrupt


def test_the_most_probable_labels_beside_the_given_ones_count():
    probabilities = pd.DataFrame([[0.9, 0.6, 0.1], [0.8, 0.3, 0.7]], columns=["a", "b", "c"])
    given, truth = ["a", "a"], [["a", "b"], ["a", "b"]]
    assert score(probabilities, given, truth, 1) == {"precision": 0.0, "recall": 0.0}
    assert score(probabilities, given, truth, 2) == {"precision": 0.5, "recall": 0.5}
    assert score(probabilities, given, truth, 3) == {"precision": pytest.approx(2 / 3), "recall": 1.0}
    assert score(probabilities, given, truth, 0) == {"precision": 0.0, "recall": 0.0}

"""The demo, on few pictures: it is complete, repeatable, and honest about what it shows."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from onepos.metrics import METRICS
from onepos.pages.demo import DEMO_METHODS, DemoResult, count_recovered, make_scenes, run_demo

TINY = {"n_seeds": 2, "n_train": 120, "n_validation": 40, "n_test": 60, "max_epochs": 4}


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def result(tmp_path_factory, told):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return run_demo(out=out, random_state=3, progress=lambda step, share: told.append((step, share)), **TINY)


def test_the_table_has_five_measures_of_five_methods(result):
    assert isinstance(result, DemoResult)
    assert tuple(result.table.index) == DEMO_METHODS
    assert tuple(result.table.columns.unique(level=0)) == METRICS
    assert np.isfinite(result.table.to_numpy()).all()
    assert len(result.scores) == len(DEMO_METHODS) * TINY["n_seeds"]
    assert result.scores.set_index("method")["full_labels"].to_dict() == {key: key == "bce" for key in DEMO_METHODS}


def test_the_report_is_written_and_complete(result):
    page = result.report.read_text(encoding="utf-8")
    assert result.report.name == "report.html"
    assert page.rstrip().endswith("</html>")
    assert f"{result.table.loc['smile', ('coverage', 'mean')]:.3f}" in page


def test_histories_are_those_of_the_networks(result):
    assert {key: len(runs) for key, runs in result.histories.items()} == {"an": 2, "smile": 2, "bce": 2}


def test_examples_are_the_first_pictures_with_one_true_observed_label(result):
    assert len(result.examples) == 12
    for example in result.examples:
        assert example.observed in example.true
        assert example.observed not in dict(example.recovered)
        shares = [share for _, share in example.recovered]
        assert len(shares) == 3
        assert shares == sorted(shares, reverse=True)
        assert all(0 <= share <= 1 for share in shares)


def test_facts_add_up(result):
    facts = result.facts
    assert json.loads(json.dumps(dict(facts))) == facts
    assert facts["hidden"] == round((facts["mean_labels"] - 1) * facts["n_train"])
    assert 0 <= facts["found"] <= min(facts["hidden"], facts["claimed"])
    assert facts["n_positives"] == 2.0


def test_progress_runs_from_nothing_to_all(told, result):
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[-1] == pytest.approx(1.0)
    steps = {step for step, _ in told}
    assert {"making pictures", "SMILE, run 2 of 2", "writing the report"} <= steps


def test_equal_seeds_give_equal_results_and_others_do_not(result, tmp_path):
    settings = TINY | {"n_seeds": 1}
    again = run_demo(out=tmp_path, random_state=3, **settings)
    first_runs = result.scores.groupby("method", sort=False).head(1).reset_index(drop=True)
    columns = ["method", "seed", *METRICS]
    pd.testing.assert_frame_equal(again.scores[columns], first_runs[columns], check_exact=True)
    assert [e.recovered for e in again.examples] == [e.recovered for e in result.examples]
    other = run_demo(out=tmp_path, random_state=4, **settings)
    assert not np.allclose(other.scores[list(METRICS)], again.scores[list(METRICS)])


def test_the_number_of_threads_is_given_back(tmp_path):
    before = torch.get_num_threads()
    run_demo(out=tmp_path, n_seeds=1, n_train=40, n_validation=20, n_test=20, max_epochs=1)
    assert torch.get_num_threads() == before


def test_ctrl_c_in_training_ends_the_demo(tmp_path):
    def interrupt(step, share):
        if step.startswith("AN,") and share > 0.2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_demo(out=tmp_path, progress=interrupt, **TINY)
    assert list(tmp_path.iterdir()) == []


def test_recovery_counts_hidden_labels_only():
    truth = np.array([[1, 1, 0], [1, 0, 0]])
    observed = np.array([[1, 0, 0], [1, 0, 0]])
    soft = np.array([[1.0, 0.9, 0.8], [1.0, 0.1, 0.6]])
    assert count_recovered(truth, observed, soft) == {
        "hidden": 1,
        "claimed": 3,
        "found": 1,
        "first_guess": 1.0,
        "first_guess_blind": 0.5,
    }


def test_pictures_of_one_digit_hide_nothing():
    observed = np.eye(3)
    assert count_recovered(observed, observed, observed)["first_guess"] == 0.0


def test_validation_and_training_pictures_differ():
    scenes = make_scenes(30, 20, 10, 0, 1)
    assert len(scenes.train[0]) == len(scenes.images) == 30
    assert len(scenes.validation[0]) == 20
    assert not (scenes.train[0][:20] == scenes.validation[0]).all(axis=1).any()

"""``torchrun … -m onepos fit``: one model file, one voice; a process that dies ends the others, and the run goes on."""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

import onepos
import torchrun
from onepos.cli import main
from onepos.exceptions import DataFileError
from onepos.table import TableModel
from shard_files import frame, write_shards

SETTINGS = {"max_epochs": 12, "batch_size": 16, "learning_rate": 0.01}
OPTIONS = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("data") / "shards")


@pytest.fixture(scope="module")
def alone(shards):
    """The model of one process that computes each batch in two portions."""
    params = SETTINGS | {"gradient_accumulation": 2}
    return TableModel(method="smile", params=params, random_state=0).fit(shards, label="tag")


def test_a_killed_process_ends_the_run_which_then_goes_on_to_the_model_of_one_process(shards, alone, tmp_path):
    out, kept = tmp_path / "model.onepos", tmp_path / "kept"
    command = ["-m", "onepos", "fit", shards, "--label", "tag", "--method", "smile", *OPTIONS, "--out", out]
    command += ["--checkpoint", kept]
    with torchrun.start(*command) as process:
        patience = time.monotonic() + 900
        while not (kept / "checkpoint.safetensors").exists():
            assert time.monotonic() < patience, "no checkpoint was written"
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.01)
        os.kill(torchrun.ranks(process.pid)[1], signal.SIGKILL)
        printed, _ = process.communicate(timeout=900)
    assert process.returncode != 0
    assert "onepos: process 0 lost the others: one of them ended or does not answer" in printed
    assert "start the run again with the same arguments" in printed
    assert not out.exists()

    code, printed = torchrun.run(*command)
    assert code == 0, printed
    assert printed.count("trained     smile on") == printed.count(" 5% training\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "model.onepos"]
    model = onepos.load(out)
    assert 1 <= model.estimator_.history_.facts["resumed_after_epoch"] < SETTINGS["max_epochs"]
    losses = [one.estimator_.history_["loss"] for one in (model, alone)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    rows = frame()
    np.testing.assert_allclose(model.predict_proba(rows), alone.predict_proba(rows), rtol=1e-4, atol=1e-6)
    assert model.facts_["counts"] == alone.facts_["counts"]
    assert model.facts_["notes"] == alone.facts_["notes"] == ["column 'f3': 5 missing, filled with the median"]


def test_two_processes_train_assume_negative_on_shards_as_one_does(shards, tmp_path):
    out, settings = tmp_path / "model.onepos", {"max_epochs": 3, "batch_size": 16}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    code, printed = torchrun.run(
        "-m", "onepos", "fit", shards, "--label", "tag", "--method", "an", *options, "--out", out
    )
    assert code == 0, printed
    assert [path.name for path in tmp_path.iterdir()] == ["model.onepos"]
    params = settings | {"gradient_accumulation": 2}
    model, one = (
        onepos.load(out),
        TableModel(method="an", params=params, random_state=0).fit(shards, label="tag"),
    )
    np.testing.assert_allclose(*(each.estimator_.history_["loss"] for each in (model, one)), rtol=1e-4)
    rows = frame()
    np.testing.assert_allclose(model.predict_proba(rows), one.predict_proba(rows), rtol=1e-4, atol=1e-6)


def test_what_cannot_be_ends_all_processes_with_one_line_and_code_2(shards, tmp_path):
    code, printed = torchrun.run(
        *("-m", "onepos", "fit", shards, "--label", "tag", "--method", "logistic", "--out", tmp_path / "model.onepos")
    )
    assert code != 0
    assert printed.count("LogisticClassifier does not share its work among processes") == 1
    assert "exitcode  : 2" in printed


def _as_one_of_two(monkeypatch):
    for name, value in {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "{}", "--label", "tag", "--method", "auto"], "AutoClassifier does not share its work"),
        (["predict", "model.onepos", "{}"], "only `onepos fit` shares work among them"),
    ],
)
def test_commands_that_do_not_share_their_work(monkeypatch, capsys, shards, tmp_path, arguments, said):
    _as_one_of_two(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main([*(part.format(shards) for part in arguments), "--out", str(tmp_path / "out.csv")])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_model_of_shards_is_that_of_the_table(tmp_path, shards, alone):
    table = TableModel(method="smile", params=dict(SETTINGS), random_state=0).fit(frame(), label="tag")
    assert alone.encoder_.kinds_ == table.encoder_.kinds_
    assert alone.labels_ == table.labels_
    assert alone.held_out_.tolist() == table.held_out_.tolist()
    assert alone.facts_["held_out_rows"] == table.facts_["held_out_rows"]
    path = alone.save(tmp_path / "model.onepos")
    rows = pd.read_parquet(shards / "01.parquet")
    pd.testing.assert_frame_equal(onepos.load(path).predict_proba(rows), alone.predict_proba(rows))


def test_a_folder_without_files(tmp_path):
    with pytest.raises(DataFileError, match="holds no table"):
        TableModel().fit(tmp_path, label="tag")

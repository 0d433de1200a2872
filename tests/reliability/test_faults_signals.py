"""Ctrl-C, SIGTERM and a closed terminal: nothing finished is lost, nothing half done is kept, and the end is clean."""

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import psutil
import pytest

from onepos.study import ResultsFolder, load_results, parse_study, run_study
from tiny_study import stable

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

#: "an" trains for hours, if nobody stops it; "wan" is quick.
SLOW = """
[study]
name = "slow"
trials = 2
rules = ["clean"]
[[data]]
sets = ["known-posterior"]
[common]
batch_size = 64
early_stopping = false
[[method]]
key = "wan"
fixed = { max_epochs = 2 }
[[method]]
key = "an"
fixed = { max_epochs = 1000000, patience = 1000000 }
"""
ENDS = {signal.SIGINT: (130, "interrupted."), signal.SIGTERM: (143, "ended by SIGTERM.")}


@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_fit_ends_at_once_and_leaves_the_old_model(start, photos, tmp_path, number):
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.onepos").write_bytes(b"the old model")
    method = ("--method", "an", "--set", "max_epochs=1000000", "--set", "early_stopping=false")
    command = start("fit", *photos, *method, "--out", out / "model.onepos")
    command.wait_for("training")
    command.send(number)
    code, said, err = command.end()
    assert code == 128 + number
    assert said == ""
    assert "Traceback" not in err
    assert err.splitlines()[-1] == f"onepos: {ENDS[number][1]}"
    assert [path.name for path in out.iterdir()] == ["model.onepos"]
    assert (out / "model.onepos").read_bytes() == b"the old model"


@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 2)])
def test_a_stopped_study_keeps_what_is_done_and_nothing_else(start, until, tmp_path, number, jobs):
    """The cell under way must not be stored: its training was cut short, and nobody would ever run it again."""
    (tmp_path / "slow.toml").write_text(SLOW)
    out = tmp_path / "out"
    command = start("bench", "run", tmp_path / "slow.toml", "--out", out, "--jobs", jobs)
    command.wait_for("wan clean trial 0: average precision")
    until(lambda: any("--an--" in note["cell"] for note in ResultsFolder(out).running()))
    workers = psutil.Process(command.process.pid).children(recursive=True)
    command.send(number)
    code, _, err = command.end()
    # joblib's resource tracker is a process of its own. It may warn after the command has ended.
    said = [line for line in err.splitlines() if "resource_tracker" not in line]
    assert (code, said[-1]) == (ENDS[number][0], f"onepos: {ENDS[number][1]}")
    assert f"stopped: finished cells are in {out}; the same command runs the rest" in err
    assert "Traceback" not in err
    assert not psutil.wait_procs(workers, timeout=30)[1]
    frame = load_results(out)
    assert set(frame["method"]) == {"wan"}
    assert ResultsFolder(out).running() == []
    assert not list(out.rglob("*.part"))
    # What is stored is what an undisturbed run stores.
    run_study(parse_study(SLOW), SLOW, ResultsFolder(tmp_path / "whole"), jobs=1, methods=("wan",))
    whole = load_results(tmp_path / "whole")
    pd.testing.assert_frame_equal(stable(frame), stable(whole[whole["cell"].isin(frame["cell"])]))


@pytest.mark.parametrize(
    ("n_folds", "interrupted", "tried"),
    [(1, 2, 2), (5, 2, 2), (5, 4, 3)],
    ids=["second candidate", "first fold of the second candidate", "second fold"],
)
def test_ctrl_c_ends_auto_with_the_members_it_has(monkeypatch, n_folds, interrupted, tried):
    """One Ctrl-C, one end: neither the next fold nor the next candidate must be begun.

    What was interrupted is judged by its first fold; in a later one it must not dilute complete models.
    """
    import onepos.training.loop

    begun = []
    run_epoch = onepos.training.loop._Run._run_epoch

    def interrupt(objective, *rest):
        begun.append(objective)
        if len({id(one) for one in begun}) == interrupted:
            raise KeyboardInterrupt
        return run_epoch(objective, *rest)

    monkeypatch.setattr(onepos.training.loop._Run, "_run_epoch", interrupt)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(80, 4)), np.eye(3, dtype=int)[rng.integers(3, size=80)]
    methods = ("an", "wan", "softmax")
    model = onepos.make_classifier("auto", methods=methods, n_folds=n_folds, time_budget=None, random_state=0)
    with pytest.warns(onepos.exceptions.TrainingWarning, match="members trained so far are used"):
        model.fit(X, Y)
    assert model.history_.facts["stopped"] == "interrupted"
    assert len({id(one) for one in begun}) == interrupted
    assert len(model.history_) == tried
    assert model.history_["folds"] == [1] * tried
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_ended_while_writing_leaves_the_old_file_and_no_rest(tmp_path, number):
    path = tmp_path / "rows"
    path.write_bytes(b"old")
    script = (
        "import os, signal, sys; from pathlib import Path; from onepos._utils.files import replaced_when_done\n"
        "from onepos.cli import orderly_end\n"
        "signal.signal(int(sys.argv[2]), signal.SIG_DFL)  # nohup has it ignored\n"
        "with orderly_end(), replaced_when_done(Path(sys.argv[1])) as part:\n"
        "    part.write_bytes(b'half of the ')\n"
        "    os.kill(os.getpid(), int(sys.argv[2]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, path, str(int(number))], capture_output=True, check=False)
    assert f"Terminated: {number.name}" in ended.stderr.decode()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_handlers_of_the_program_around_are_kept():
    from onepos.cli import orderly_end

    def own(*_):
        raise AssertionError("not called")

    before = signal.signal(signal.SIGTERM, own), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with orderly_end():
            assert signal.getsignal(signal.SIGTERM) is own
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as under nohup
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])

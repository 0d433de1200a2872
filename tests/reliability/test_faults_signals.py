"""Ctrl-C, SIGTERM and a closed terminal: nothing finished is lost, nothing half done is kept, and the end is clean."""

import signal
import subprocess
import sys

import numpy as np
import pytest

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
    run_epoch = onepos.training.loop.Run.run_epoch

    def interrupt(objective, *rest):
        begun.append(objective)
        if len({id(one) for one in begun}) == interrupted:
            raise KeyboardInterrupt
        return run_epoch(objective, *rest)

    monkeypatch.setattr(onepos.training.loop.Run, "run_epoch", interrupt)
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

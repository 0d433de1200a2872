"""A study that is told to end keeps what is done."""

import signal

import pandas as pd
import psutil
import pytest

from onepos_studies.study import ResultsFolder, load_results, parse_study, run_study
from tiny_study import stable

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


@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
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
    assert not psutil.wait_procs(workers, timeout=300)[1]
    frame = load_results(out)
    assert set(frame["method"]) == {"wan"}
    assert ResultsFolder(out).running() == []
    assert not list(out.rglob("*.part"))
    # What is stored is what an undisturbed run stores.
    run_study(parse_study(SLOW), SLOW, ResultsFolder(tmp_path / "whole"), jobs=1, methods=("wan",))
    whole = load_results(tmp_path / "whole")
    pd.testing.assert_frame_equal(stable(frame), stable(whole[whole["cell"].isin(frame["cell"])]))

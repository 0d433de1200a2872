"""A study has the same rows however it is run."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

from onepos_studies.study import load_results
from tiny_study import stable, study_text


def test_a_study_has_the_same_rows_with_parallel_jobs_and_after_a_resumed_run(tmp_path):
    """Each run in a process of its own: what ran before in this one is not part of the promise."""
    (tmp_path / "tiny.toml").write_text(study_text("frequency", "logistic", "wan", "smile"))
    frames = []
    for name, parts in (("whole", [("", 1)]), ("resumed", [("smile", 1), ("", 2)])):
        for methods, jobs in parts:
            command = [sys.executable, "-m", "onepos", "bench", "run", tmp_path / "tiny.toml", "--out", tmp_path / name]
            options = ["--methods", methods, "--jobs", str(jobs)]
            subprocess.run([*command, *options], check=True, capture_output=True)
        frames.append(stable(load_results(Path(tmp_path / name))))
    pd.testing.assert_frame_equal(*frames, check_exact=True)

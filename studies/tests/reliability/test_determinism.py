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
    resumed = [("smile",), ("logistic", "wan"), ()]
    for name, jobs, parts in (("one", 1, [()]), ("two", 2, [()]), ("resumed", 1, resumed)):
        command = [sys.executable, "-m", "onepos", "bench", "run", str(tmp_path / "tiny.toml"), "--jobs", str(jobs)]
        for methods in parts:
            chosen = ["--methods", ",".join(methods)] if methods else []
            subprocess.run([*command, "--out", str(tmp_path / name), *chosen], check=True, capture_output=True)
        frames.append(stable(load_results(Path(tmp_path / name))))
    pd.testing.assert_frame_equal(frames[0], frames[1], check_exact=True)
    pd.testing.assert_frame_equal(frames[0], frames[2], check_exact=True)

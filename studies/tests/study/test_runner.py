"""The runner: resumes, retries, never repeats or loses a cell, survives being killed and losing workers."""

import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import psutil
import pytest

from onepos_studies.exceptions import StudyError
from onepos_studies.study import ResultsFolder, cells_of, load_results, parse_study, run_study
from onepos_studies.study.folder import export_results
from tiny_study import stable, study_text

TEXT = study_text("frequency", "an")


def run(folder, text=TEXT, **options):
    """Return the counts of a run, and what its lines call the cells that it ran."""
    lines = []
    counts = run_study(parse_study(text), text, ResultsFolder(folder), jobs=1, log=lines.append, **options)
    return counts, [line.partition("left] ")[2].partition(":")[0] for line in lines if line.startswith("[")]


def called(cells):
    return sorted(f"{cell.dataset} {cell.method} {cell.rule} trial {cell.trial}" for cell in cells)


def test_runs_once_and_only_once(tmp_path):
    counts, ran = run(tmp_path)
    assert counts == (4, 0)
    assert sorted(ran) == called(cells_of(parse_study(TEXT)))
    frame = load_results(tmp_path)
    assert frame["cell"].tolist() == [cell.id for cell in cells_of(parse_study(TEXT))]
    assert run(tmp_path) == ((4, 0), [])
    pd.testing.assert_frame_equal(load_results(tmp_path), frame)


def test_what_is_added_runs_and_nothing_else(tmp_path):
    run(tmp_path, methods=("frequency",))
    _, ran = run(tmp_path)
    assert len(ran) == 2
    assert all(" an " in name for name in ran)
    more = TEXT + '[[method]]\nkey = "wan"\n'
    counts, ran = run(tmp_path, more)
    assert counts == (6, 0)
    assert len(ran) == 2
    assert all(" wan " in name for name in ran)


def test_cells_that_two_studies_share_are_run_once(tmp_path):
    run(tmp_path / "a")
    text = TEXT.replace('"tiny"', '"other"') + '[[method]]\nkey = "wan"\n'
    _, ran = run(tmp_path / "b", text, reuse=load_results(tmp_path / "a"))
    assert len(ran) == 2
    both = [load_results(tmp_path / name).query("method == 'an'") for name in "ab"]
    names = ["study", "study_hash"]
    pd.testing.assert_frame_equal(*(frame.drop(columns=names).reset_index(drop=True) for frame in both))


def test_a_part_of_a_study_takes_over_all_that_there_is(tmp_path):
    run(tmp_path / "a")
    counts, ran = run(tmp_path / "b", methods=("frequency",), reuse=load_results(tmp_path / "a"))
    assert (counts, ran) == ((2, 0), [])
    pd.testing.assert_frame_equal(load_results(tmp_path / "b"), load_results(tmp_path / "a"))


def test_failed_cells_are_recorded_and_tried_again(tmp_path):
    broken = TEXT.replace("max_epochs = 2", "max_epochs = 2\nscale = 'none'")
    bad = broken.replace('key = "an"', 'key = "an"\nfixed = { dropout = 5.0 }')
    (done, failed), _ = run(tmp_path, bad)
    assert (done, failed) == (2, 1)  # trial 1 waits for the choice of trial 0, which never came
    frame = load_results(tmp_path)
    error = frame.loc[frame["status"] == "failed", "error"].item()
    assert "dropout" in error
    (done, failed), ran = run(tmp_path, bad)
    assert (done, failed) == (2, 1)
    assert len(ran) == 1


def test_another_study_is_kept_out(tmp_path):
    run(tmp_path, methods=("frequency",))
    with pytest.raises(StudyError, match="holds results of study 'tiny', not of 'other'"):
        run(tmp_path, TEXT.replace('"tiny"', '"other"'))


def test_two_runners_at_once(tmp_path):
    folder = ResultsFolder(tmp_path)
    with folder.locked(), pytest.raises(StudyError, match=f"another run .process {os.getpid()}. is writing"):
        run(tmp_path)


def test_rows_cut_off_anywhere_say_what_to_do(tmp_path):
    run(tmp_path, methods=("frequency",))
    victim = sorted((tmp_path / "rows").iterdir())[0]
    content = victim.read_bytes()
    for size in [*range(0, len(content), 997), *range(len(content) - 150, len(content))]:
        victim.write_bytes(content[:size])
        with pytest.raises(StudyError, match=rf"{victim.stem}.* is damaged .* delete it, and the cell is run again"):
            load_results(tmp_path)
    with pytest.raises(StudyError, match="is damaged"):
        run(tmp_path, methods=("frequency",))
    victim.unlink()
    assert run(tmp_path, methods=("frequency",)) == ((2, 0), ["known-posterior frequency clean trial 0"])


def test_an_exported_file_cut_off_anywhere_is_refused(tmp_path):
    run(tmp_path, methods=("frequency",))
    export_results(ResultsFolder(tmp_path), tmp_path / "all.parquet")
    content = (tmp_path / "all.parquet").read_bytes()
    for size in [*range(0, len(content), 997), *range(len(content) - 150, len(content))]:
        (tmp_path / "all.parquet").write_bytes(content[:size])
        with pytest.raises(StudyError, match="is not a parquet file of results"):
            load_results(tmp_path / "all.parquet")


def test_one_file_holds_the_same_rows(tmp_path):
    run(tmp_path)
    exported = export_results(ResultsFolder(tmp_path), tmp_path / "all.parquet")
    pd.testing.assert_frame_equal(load_results(tmp_path / "all.parquet"), exported)
    with pytest.raises(StudyError, match="no results at"):
        load_results(tmp_path / "absent")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(StudyError, match="not a parquet file of results"):
        load_results(tmp_path / "text.parquet")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(StudyError, match="no column dataset"):
        load_results(tmp_path / "other.parquet")
    with pytest.raises(StudyError, match="holds no study"):
        load_results(tmp_path / "rows")


def test_a_killed_worker_is_replaced_and_a_deadly_cell_recorded(tmp_path):
    """A cell that kills its process twice is failed; the others are run."""
    script = f"""
import os, signal
import onepos_studies.study.runner as runner
from onepos_studies.study import ResultsFolder, parse_study, run_study
TEXT = {TEXT!r}

def work(task, folder, _):
    if task[0][0].method == "an":
        folder.note_start(task[0][0])
        os.kill(os.getpid(), signal.SIGKILL)
    return runner.run_noted(task, folder)

if __name__ == "__main__":
    runner._work = work
    print(run_study(parse_study(TEXT), TEXT, ResultsFolder({str(tmp_path / "out")!r}), jobs=2))
"""
    (tmp_path / "deadly.py").write_text(script)
    result = subprocess.run([sys.executable, str(tmp_path / "deadly.py")], capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith("(2, 1)")
    frame = load_results(tmp_path / "out")
    assert frame.loc[frame["status"] == "failed", "error"].item().startswith("its process was killed twice")
    assert (frame.loc[frame["method"] == "frequency", "status"] == "ok").all()


def test_workers_end_with_a_killed_runner(tmp_path):
    command = [sys.executable, "-m", "onepos", "bench", "run", "smoke", "--out", str(tmp_path), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(2):
        process.stderr.readline()  # until the first cell is done
    workers = [child for child in psutil.Process(process.pid).children(recursive=True) if child.is_running()]
    assert workers
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    _, alive = psutil.wait_procs(workers, timeout=300)
    assert not alive


def test_a_kill_while_two_cells_run_and_others_are_done(tmp_path):
    """Rows that are there stay as they are, the two cells under way run again, and what was half written is swept."""
    text = study_text("frequency", "an", "wan").replace("[common]", '[tuning]\nwhen = "each-trial"\n[common]')
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    script = f"""
import time
import onepos_studies.study.runner as runner
from onepos_studies.study import ResultsFolder, parse_study, run_study

def work(task, folder, parent):
    if task[0][0].method != "wan":
        time.sleep(0.5)  # joblib puts faster cells into one batch, and wan among them
        return before(task, folder, parent)
    runner.end_with_runner(parent)
    folder.note_start(task[0][0])
    time.sleep(600)

before, runner._work = runner._work, work
if __name__ == "__main__":
    run_study(parse_study({text!r}), {text!r}, ResultsFolder({str(out)!r}), jobs=2)
"""
    (tmp_path / "killed.py").write_text(script)
    process = subprocess.Popen([sys.executable, str(tmp_path / "killed.py")])
    folder, rows = ResultsFolder(out), out / "rows"
    while len(folder.running()) < 2 or len(list(rows.glob("*.parquet"))) < 4:
        assert process.poll() is None
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    for one in (process, *workers):
        one.kill()
    process.wait()
    psutil.wait_procs(workers, timeout=300)
    part = rows / f".half.parquet.onepos-{'0' * 16}.part"
    part.write_bytes(b"PAR1")
    os.utime(part, (0, 0))  # of a process that was killed long ago
    done = {path: path.stat().st_mtime_ns for path in rows.glob("*.parquet")}
    counts, ran = run(out, text)
    assert counts == (6, 0)
    assert sorted(ran) == called(cell for cell in cells_of(parse_study(text)) if cell.method == "wan")
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert not part.exists()
    run(undisturbed, text)
    pd.testing.assert_frame_equal(stable(load_results(out)), stable(load_results(undisturbed)))


@pytest.mark.long
def test_kills_change_nothing(tmp_path):
    """A study that is killed with SIGKILL at random moments and resumed has the rows of an undisturbed run."""
    text = study_text("frequency", "an", "wan")
    run(tmp_path / "undisturbed", text)
    (tmp_path / "tiny.toml").write_text(text)
    out, moments = tmp_path / "out", random.Random(0)
    command = [sys.executable, "-m", "onepos", "bench", "run", tmp_path / "tiny.toml", "--out", out, "--jobs", "2"]
    for kill in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()  # the first line: the work begins
        # The last cells are left for the last kills.
        while len(list((out / "rows").glob("*.parquet"))) < kill and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.2 * moments.random())
        process.kill()
        process.wait()
        process.stderr.close()
        load_results(out)  # readable at every moment
    subprocess.run(command, check=True, capture_output=True)
    pd.testing.assert_frame_equal(stable(load_results(out)), stable(load_results(tmp_path / "undisturbed")))
    assert not list((out / "running").iterdir())

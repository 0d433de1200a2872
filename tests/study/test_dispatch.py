"""Handing cells to a cluster: what a cluster does seldom is played by one of threads.

Workers that cannot run a cell, cells that kill, a scheduler that goes, workers that leave.
"""

import re
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from onepos.exceptions import StudyError
from onepos.study import Observer, ResultsFolder, cells_of, parse_study
from onepos.study import dispatch as dispatch_module
from onepos.study.cells import data_set, run_together
from onepos.study.dispatch import DIED, run_on_cluster
from onepos.study.engine import Engine, Unfit, Worker, work_on_cluster
from tiny_study import study_text

TEXT = study_text("frequency", "an", "smile", rules=("clean", "single-positive"))


class Threads(Engine):
    """A cluster whose workers are played: ``behave(worker, cells)`` says what comes of cells on a worker."""

    def __init__(self, behave, names=("a", "b")):
        super().__init__("the cluster of threads")
        self.behave, self.names = behave, frozenset(names)
        self.pool, self.connected, self.stranded = ThreadPoolExecutor(1), True, set()
        self.cancelled = []

    def submit(self, name, avoid, function, *arguments):
        assert function is work_on_cluster
        fit = sorted(self.names - avoid)
        return self.pool.submit(self.behave, fit[0], arguments[0])

    def cancel(self, futures):
        self.cancelled += futures

    def workers(self):
        return self.names

    def is_stranded(self, future):
        return future in self.stranded

    def is_death(self, error):
        return isinstance(error, MemoryError)

    def is_connected(self):
        return self.connected

    @staticmethod
    def this_worker():
        return Worker("a", 1)


def rows(worker, cells):
    return [{"cell": cell.id, "worker": worker} for cell in cells]


def drive(engine, folder):
    notices = []
    cells = cells_of(parse_study(TEXT))
    tasks = [(task, [None] * len(task)) for task in run_together(cells)]
    made = list(run_on_cluster(engine, tasks, ResultsFolder(folder), notices.append))
    assert sorted(row["cell"] for row in made) == sorted(cell.id for cell in cells)
    return made, notices


def test_a_worker_that_is_unfit_is_passed_over(tmp_path):
    def behave(worker, cells):
        return Unfit("a", "there", "is ill.") if worker == "a" else rows(worker, cells)

    engine = Threads(behave)
    made, notices = drive(engine, tmp_path)
    assert {row["worker"] for row in made} == {"b"}
    assert notices == ["worker a on there is ill."]
    assert engine.unfit == {"known-posterior": {"a"}}
    assert drive(engine, tmp_path)[1] == []


def test_cells_that_no_worker_can_run_fail(tmp_path):
    made, notices = drive(Threads(lambda worker, cells: Unfit(worker, "there", "is ill.")), tmp_path)
    assert {row["status"] for row in made} == {"failed"}
    assert {row["error"] for row in made} == {"no worker can run this cell; the last one is ill."}
    assert len(notices) == 2


def test_a_deadly_cell_fails_and_the_others_are_run(tmp_path):
    def behave(worker, cells):
        if cells[0].method == "an":
            raise MemoryError
        return rows(worker, cells)

    made, _ = drive(Threads(behave), tmp_path)
    assert {row["error"] for row in made if "error" in row} == {DIED}
    assert len([row for row in made if "error" in row]) == 4


def test_what_a_worker_cannot_begin_ends_the_run_and_cancels_the_rest(tmp_path):
    def behave(worker, cells):
        if cells[0].method == "an":
            raise ModuleNotFoundError("No module named 'onepos'")
        return rows(worker, cells)

    engine = Threads(behave)
    with pytest.raises(StudyError, match=r"could not run a cell: ModuleNotFoundError: .* same onepos and packages"):
        drive(engine, tmp_path)
    assert engine.cancelled


def test_a_cluster_that_is_gone_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch_module, "PATIENCE", 0.01)
    engine = Threads(lambda worker, cells: time.sleep(0.2))
    engine.connected = False
    with pytest.raises(StudyError, match=r"cluster of threads is gone; finished cells are stored"):
        drive(engine, tmp_path)


def test_a_cell_that_waits_for_workers_that_left_is_handed_out_again(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch_module, "PATIENCE", 0.01)
    engine = Threads(rows)
    submit, never = engine.submit, Future()

    def strand_the_first(*arguments):
        if not engine.stranded:
            engine.stranded.add(never)
            return never
        return submit(*arguments)

    engine.submit = strand_the_first
    drive(engine, tmp_path)
    assert never in engine.cancelled


def test_an_empty_cluster_is_waited_for(tmp_path):
    engine = Threads(rows)
    engine.workers = frozenset
    _, notices = drive(engine, tmp_path)
    assert notices == ["the cluster of threads has no worker yet; waiting for one"]


def test_data_are_loaded_once_in_a_worker(tmp_path):
    tasks = run_together(cells_of(parse_study(TEXT)))[:2]
    data_set.cache_clear()
    for task in tasks:
        made = work_on_cluster(task, [None] * len(task), ResultsFolder(tmp_path), Threads.this_worker)
        assert {row["status"] for row in made} == {"ok"}
    assert data_set.cache_info().misses == 1


def test_a_worker_with_several_threads_is_unfit(tmp_path):
    task = run_together(cells_of(parse_study(TEXT)))[0]
    answer = work_on_cluster(task, [None] * len(task), ResultsFolder(tmp_path), lambda: Worker("w", 4))
    assert answer == Unfit("w", socket.gethostname(), answer.reason)
    assert re.match(r"has 4 threads, and a cell needs a process to itself: start it with --nthreads 1", answer.reason)


def test_observers_need_not_listen():
    Observer().on_notice("nothing happens")

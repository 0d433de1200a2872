"""Handing cells to a cluster: what a cluster does seldom is played by one of threads.

Workers that cannot run a cell, cells that kill, a scheduler that goes, workers that leave.
"""

import re
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from onepos.exceptions import StudyError
from onepos_studies.study import Observer, ResultsFolder, cells_of, parse_study
from onepos_studies.study import cluster as cluster_module
from onepos_studies.study.cells import data_set, run_together
from onepos_studies.study.cluster import DIED, Cluster, Unfit, work_on_cluster
from tiny_study import study_text

TEXT = study_text("frequency", "an", "smile", rules=("clean", "single-positive"))


class Threads(Cluster):
    """A cluster whose workers are played: ``behave(worker, cells)`` says what comes of cells on a worker."""

    def __init__(self, behave, names=("a", "b")):
        super().__init__(None, "the cluster of threads")
        self.behave, self.names = behave, frozenset(names)
        self.pool, self.connected, self.cancelled = ThreadPoolExecutor(1), True, []

    def submit(self, name, fit, *arguments):
        return self.pool.submit(self.behave, min(self.names if fit is None else fit), arguments[0])

    def cancel(self, futures):
        self.cancelled += futures

    def workers(self):
        return self.names

    def is_death(self, error):
        return isinstance(error, MemoryError)

    def is_connected(self):
        return self.connected


def rows(worker, cells):
    return [{"cell": cell.id, "worker": worker} for cell in cells]


def drive(engine, folder):
    notices = []
    cells = cells_of(parse_study(TEXT))
    tasks = [(task, [None] * len(task)) for task in run_together(cells)]
    made = list(engine.run(tasks, ResultsFolder(folder), notices.append))
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
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.01)
    asked = threading.Event()
    engine = Threads(lambda worker, cells: asked.wait())
    engine.connected = False
    try:
        with pytest.raises(StudyError, match=r"cluster of threads is gone. Finished cells are stored"):
            drive(engine, tmp_path)
    finally:
        asked.set()


def test_a_cell_that_waits_for_workers_that_left_is_handed_out_again(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.01)
    engine = Threads(rows)
    engine.unfit["known-posterior"].add("a")
    submit, never = engine.submit, Future()

    def strand_the_first(*arguments):
        if engine.names != {"c"}:  # the one fit worker leaves, another one comes
            engine.names = frozenset({"c"})
            return never
        return submit(*arguments)

    engine.submit = strand_the_first
    made, _ = drive(engine, tmp_path)
    assert {row["worker"] for row in made} == {"c"}
    assert never in engine.cancelled


def test_an_empty_cluster_is_waited_for(tmp_path):
    engine = Threads(rows)
    engine.workers = frozenset  # none
    _, notices = drive(engine, tmp_path)
    assert notices == ["the cluster of threads has no worker yet; waiting for one"]


def test_data_are_loaded_once_in_a_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "_this_worker", lambda: ("w", 1))
    tasks = run_together(cells_of(parse_study(TEXT)))[:2]
    data_set.cache_clear()
    for task in tasks:
        made = work_on_cluster(task, [None] * len(task), ResultsFolder(tmp_path))
        assert {row["status"] for row in made} == {"ok"}
    assert data_set.cache_info().misses == 1


def test_a_worker_with_several_threads_is_unfit(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "_this_worker", lambda: ("w", 4))
    task = run_together(cells_of(parse_study(TEXT)))[0]
    answer = work_on_cluster(task, [None] * len(task), ResultsFolder(tmp_path))
    assert answer == Unfit("w", socket.gethostname(), answer.reason)
    assert re.match(r"has 4 threads, and a cell needs a process to itself: start it with --nthreads 1", answer.reason)


def test_observers_need_not_listen():
    Observer().on_notice("nothing happens")

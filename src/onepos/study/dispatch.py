"""Hand cells to a cluster and take their rows back: all at once, so that workers that come later find work."""

from collections.abc import Callable, Generator, Iterator
from queue import Empty, SimpleQueue
from typing import Any

from onepos.exceptions import StudyError
from onepos.study.cells import Cell
from onepos.study.engine import PATIENCE, Engine, Unfit, work_on_cluster
from onepos.study.execute import Row, failed_row
from onepos.study.folder import ResultsFolder
from onepos.study.spec import Parameters

#: Cells for one worker, and for each the setting that it takes over, if it does.
Task = tuple[list[Cell], list[Parameters | None]]

#: Why a cell failed whose workers died each time.
DIED = "each worker that had it died, perhaps for want of memory; its log may say why"


def run_on_cluster(
    engine: Engine, tasks: list[Task], folder: ResultsFolder, notice: Callable[[str], None]
) -> Generator[Row, None, None]:
    """Yield rows as they come. The engine starts a cell again whose worker dies; unfit workers are passed over.

    A cell fails if its workers died again and again, or if no worker that is there can run it.
    """
    dispatch = _Dispatch(engine, ResultsFolder(folder.path.resolve()))
    try:
        for task in tasks:
            dispatch.hand_out(task)
        if not engine.workers():
            notice(f"{engine.where} has no worker yet; waiting for one")
        while dispatch.waiting:
            task, answer = dispatch.next_answer()
            if isinstance(answer, Unfit):
                if dispatch.avoid(task, answer):
                    notice(f"worker {answer.worker} on {answer.host} {answer.reason}")
                if engine.workers() <= engine.unfit[_dataset(task)]:
                    yield from _failed(task, f"no worker can run this cell; the last one {answer.reason}")
                else:
                    dispatch.hand_out(task)
            elif isinstance(answer, str):
                yield from _failed(task, answer)
            else:
                yield from answer
    finally:
        engine.cancel(list(dispatch.waiting))


class _Dispatch:
    """What is handed out, and what comes back."""

    def __init__(self, engine: Engine, folder: ResultsFolder) -> None:
        self.engine, self.folder = engine, folder
        self.waiting: dict[Any, Task] = {}
        self.finished: SimpleQueue[Any] = SimpleQueue()

    def hand_out(self, task: Task) -> None:
        cells, choices = task
        avoid = frozenset(self.engine.unfit[_dataset(task)])
        arguments = (cells, choices, self.folder, self.engine.this_worker)
        future = self.engine.submit(cells[0].id, avoid, work_on_cluster, *arguments)
        self.waiting[future] = task
        future.add_done_callback(self.finished.put)

    def avoid(self, task: Task, answer: Unfit) -> bool:
        """Pass a worker over for this data set from now on; tell whether that is new."""
        workers = self.engine.unfit[_dataset(task)]
        new = answer.worker not in workers
        workers.add(answer.worker)
        return new

    def next_answer(self) -> tuple[Task, list[Row] | Unfit | str]:
        """Wait for a worker: rows, that it is unfit, or in words that several died of the cell."""
        future = self._next_finished()
        task = self.waiting.pop(future)
        try:
            return task, future.result()
        except Exception as error:
            if self.engine.is_death(error):
                return task, DIED
            if not self.engine.is_connected():
                raise self._gone() from error
            raise StudyError(
                f"{self.engine.where} could not run a cell: {type(error).__name__}: {error} Workers need the same "
                "onepos and packages as the runner; finished cells are stored, and the same command goes on."
            ) from error

    def _next_finished(self) -> Any:
        while True:
            try:
                future = self.finished.get(timeout=PATIENCE)
            except Empty:
                if not self.engine.is_connected():
                    raise self._gone() from None
                self._hand_out_stranded()
            else:
                if future in self.waiting:
                    return future

    def _gone(self) -> StudyError:
        return StudyError(f"{self.engine.where} is gone; finished cells are stored, and the same command goes on.")

    def _hand_out_stranded(self) -> None:
        stranded = [future for future in self.waiting if self.engine.is_stranded(future)]
        self.engine.cancel(stranded)
        for future in stranded:
            self.hand_out(self.waiting.pop(future))


def _dataset(task: Task) -> str:
    return task[0][0].dataset


def _failed(task: Task, reason: str) -> Iterator[Row]:
    for cell in task[0]:
        yield failed_row(cell, reason)

"""How far the demo is, and how it shares the machine."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from onepos.training import Callback, Objective

#: Told which step is under way and which share of the whole work is done.
Progress = Callable[[str, float], None]


class Ticker(Callback):
    """Turns batches and epochs of one run into the share of the whole demo."""

    def __init__(self, tell: Progress, step: str, start: float, width: float) -> None:
        self.tell, self.step, self.start, self.width = tell, step, start, width
        self.epoch, self.max_epochs = 0, 1

    def tick(self, share: float) -> None:
        """Tell the share of this run as a share of the whole."""
        self.tell(self.step, round(self.start + self.width * share, 6))

    def on_train_begin(self, objective: Objective, max_epochs: int) -> None:
        """Note how long it may take."""
        self.max_epochs = max_epochs

    def on_batch_end(self, done: int, total: int) -> None:
        """Move the bar."""
        self.tick((self.epoch + done / total) / self.max_epochs)

    def on_epoch_end(self, objective: Objective, record: Mapping[str, float]) -> None:
        """Count the epoch."""
        self.epoch += 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread for a while.

    The batches are too small to share. On a busy machine threads that wait for each other in every one of a few
    thousand steps made the demo ten times slower.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)

"""What happened during training, one record an epoch."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


class History:
    """A list of epoch records and facts about the run as a whole.

    ``history[-1]["valid_average_precision"]`` is the last epoch's value, ``history["loss"]`` the list of all,
    ``history.to_frame()`` a DataFrame. ``history.facts`` holds what concerns the run: best epoch, why it stopped,
    number of positives assumed.
    """

    def __init__(self, records: list[dict[str, float]] | None = None, facts: dict[str, Any] | None = None) -> None:
        self.records = records if records is not None else []
        self.facts = facts if facts is not None else {}

    def append(self, record: Mapping[str, float]) -> None:
        """Add one epoch's record."""
        self.records.append(dict(record))

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return iter(self.records)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return [record.get(key) for record in self.records]
        return self.records[key]

    def __repr__(self) -> str:
        return f"History({len(self)} epochs, {self.facts})"

    def to_frame(self) -> "pd.DataFrame":
        """One row an epoch, one column a quantity."""
        import pandas as pd

        return pd.DataFrame(self.records)

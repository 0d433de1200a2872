"""Results on disk: one small parquet file a cell, whole or not there; many are read as one table."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepos._files import write_durably
from onepos._optional import require
from onepos.exceptions import StudyError

if TYPE_CHECKING:
    import pandas as pd

_PURPOSE = "storing results"


def write_row(folder: Path, row: dict[str, Any]) -> None:
    """Write the row of a cell durably: after this returns, no crash loses it; before, no reader sees it."""
    import pandas as pd

    require("pyarrow", extra="data", purpose=_PURPOSE)
    content = pd.DataFrame([row]).to_parquet(index=False)
    write_durably(folder / f"{row['cell']}.parquet", content)


def read_rows(folder: Path, cells: Iterable[str] | None = None) -> "pd.DataFrame":
    """Read the rows of a folder, or of some cells of it, in the order of ``cells`` or of their names."""
    import pandas as pd

    require("pyarrow", extra="data", purpose=_PURPOSE)
    names = [path.stem for path in sorted(folder.glob("*.parquet"))] if cells is None else list(cells)
    paths = [folder / f"{name}.parquet" for name in names]
    frames = []
    for path in paths:
        if path.exists():
            try:
                frames.append(pd.read_parquet(path))
            except (OSError, ValueError) as error:
                raise StudyError(f"{path} is damaged ({error}); delete it, and the cell is run again.") from error
    return pd.concat(_without_empty_columns(frames), ignore_index=True) if frames else pd.DataFrame()


def _without_empty_columns(frames: "list[pd.DataFrame]") -> "list[pd.DataFrame]":
    # pandas is about to stop inferring types from all-NA columns; "error" is the one that is empty in most rows.
    return [frame.astype({"error": object}) for frame in frames]

"""Open results: a folder under way, or one parquet file made from it."""

from pathlib import Path
from typing import TYPE_CHECKING

from onepos._files import write_durably
from onepos._optional import require
from onepos.exceptions import StudyError
from onepos.study.folder import ResultsFolder

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("dataset", "method", "trial", "selection", "status", "average_precision", "setting")


def load_results(path: str | Path) -> "pd.DataFrame":
    """Return one row a finished cell, good or failed.

    Parameters
    ----------
    path : a results folder, or a parquet file from ``export_results``
    """
    path = Path(path)
    if path.is_dir():
        return ResultsFolder.open(path).frame()
    import pandas as pd

    require("pyarrow", extra="data", purpose="reading results")
    if not path.is_file():
        raise StudyError(f"no results at {path}: give a results folder or a parquet file of results.")
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} is not a parquet file of results: {error}") from error
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise StudyError(f"{path} is not a results file: it has no column {', '.join(missing)}.")
    return frame


def export_results(folder: ResultsFolder, path: str | Path) -> "pd.DataFrame":
    """Write all rows of a folder into one parquet file, whose own folder is made if need be, and return them."""
    frame = folder.frame()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_durably(Path(path), frame.to_parquet(index=False, compression="zstd"))
    return frame

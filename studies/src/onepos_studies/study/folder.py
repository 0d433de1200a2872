"""A results folder: the study file, a row per finished cell, notes of running cells, and a lock for one runner."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from onepos._utils.files import explained, write_durably
from onepos_studies.exceptions import StudyError
from onepos_studies.study.cells import Cell, cells_of
from onepos_studies.study.parse import parse_study
from onepos_studies.study.spec import Study

_STUDY, _FILES, _CELLS, _ROWS, _RUNNING, _LOCK = "study.toml", "files.json", "cells.json", "rows", "running", ".lock"


class ResultsFolder:
    """Everything a study leaves on disk.

    ``study.toml`` is the study, ``files.json`` says where its data files are and has their sha256, ``cells.json`` names
    its cells, so that finished results are read without its methods. ``rows/`` holds one parquet file per cell,
    ``running/`` a note for each cell under way.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def open(cls, path: str | Path) -> "ResultsFolder":
        """Open a folder that has results; StudyError if it has none."""
        folder = cls(path)
        if not (folder.path / _STUDY).is_file():
            raise StudyError(f"{path} holds no study; `onepos bench run STUDY --out {path}` makes one.")
        return folder

    def prepare(self, study: Study, text: str) -> None:
        """Make the folder, or check that it belongs to this study; a changed study keeps the cells that it shares."""
        for name in (_ROWS, _RUNNING):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        if (self.path / _STUDY).is_file():
            before = self.study()
            if before.name != study.name:
                raise StudyError(
                    f"{self.path} holds results of study {before.name!r}, not of {study.name!r}; give another --out."
                )
        places = {group.name: (group.file, group.sha256) for group in study.data if group.file}
        write_durably(self.path / _FILES, json.dumps(places).encode("utf-8"))
        about = {"study_hash": study.content_hash, "study": study.name, "description": study.description}
        planned = {**about, "cells": [cell.id for cell in cells_of(study)]}
        write_durably(self.path / _CELLS, json.dumps(planned).encode("utf-8"))
        write_durably(self.path / _STUDY, text.encode("utf-8"))

    def planned(self) -> dict[str, Any]:
        """Return name, hash and description of the study, and the ids of its cells; no method is imported."""
        try:
            return dict(json.loads((self.path / _CELLS).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise StudyError(
                f"{self.path / _CELLS} is damaged ({error}); `onepos bench run` writes it again."
            ) from error

    def study(self) -> Study:
        """Return the study whose results these are."""
        places = self.path / _FILES
        known = json.loads(places.read_text(encoding="utf-8")) if places.is_file() else {}
        return parse_study((self.path / _STUDY).read_text(encoding="utf-8"), places=known)

    def frame(self) -> pd.DataFrame:
        """Return the rows of the study's cells in the study's order; rows of earlier versions of it are left out."""
        facts = self.planned()
        frame = self._read(facts["cells"])
        for name in ("study_hash", "study"):
            frame.insert(0, name, facts[name])
        return frame

    def _read(self, cells: list[str]) -> pd.DataFrame:
        frames = []
        for path in (self.path / _ROWS / f"{cell}.parquet" for cell in cells):
            if path.exists():
                try:
                    # Empty in most rows: there is no type to infer.
                    frames.append(pd.read_parquet(path).astype({"error": object}))
                except (OSError, ValueError) as error:
                    raise StudyError(f"{path} is damaged ({error}); delete it, and the cell is run again.") from error
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def has_row(self, cell: Cell) -> bool:
        """Tell whether a cell has a row, good or failed."""
        return (self.path / _ROWS / f"{cell.id}.parquet").exists()

    def add(self, row: dict[str, Any]) -> None:
        """Store the row of a finished cell: after this returns, no crash loses it; before, no reader sees it."""
        content = pd.DataFrame([row]).to_parquet(index=False)
        write_durably(self.path / _ROWS / f"{row['cell']}.parquet", content)
        self.note_end(row["cell"])

    def is_within_reach(self) -> bool:
        """Tell whether notes can be left from here; a worker on another machine may not see the folder."""
        return os.access(self.path / _RUNNING, os.W_OK)

    def note_start(self, cell: Cell) -> None:
        """Leave a note that a cell is under way in this process."""
        note = {"cell": cell.id, "pid": os.getpid(), "started": time.time()}
        path = self.path / _RUNNING / f"{cell.id}.json"
        with explained(path):
            path.write_text(json.dumps(note), encoding="utf-8")

    def note_end(self, cell: str) -> None:
        """Remove the note of a cell."""
        (self.path / _RUNNING / f"{cell}.json").unlink(missing_ok=True)

    def running(self) -> list[dict[str, Any]]:
        """Return the notes of cells under way."""
        notes = []
        for path in sorted((self.path / _RUNNING).glob("*.json")):
            try:
                notes.append(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                continue  # it ended, or was just being written
        return notes

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runners out of the folder; the lock ends with this process, however it ends."""
        with explained(self.path / _LOCK):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / _LOCK).open("a+")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise StudyError(
                    f"another run (process {holder}) is writing to {self.path}; wait for it, stop it, or give "
                    "another --out."
                ) from error
            with explained(self.path / _LOCK):
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
            self._forget_running()  # left by a run that was killed
            try:
                yield
            finally:
                self._forget_running()  # by one that was stopped; its workers are gone

    def _forget_running(self) -> None:
        # Whatever is in them: a full disk or a kill may have left half a note.
        for path in (self.path / _RUNNING).glob("*.json"):
            path.unlink(missing_ok=True)


COLUMNS = ("dataset", "method", "trial", "selection", "status", "average_precision", "setting")


def load_results(path: str | Path) -> pd.DataFrame:
    """Return one row per finished cell, good or failed, of a results folder or of a file from ``export_results``."""
    path = Path(path)
    if path.is_dir():
        return ResultsFolder.open(path).frame()
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


def export_results(folder: ResultsFolder, path: str | Path) -> pd.DataFrame:
    """Write all rows of a folder into one parquet file and return them; make its folder if it does not exist."""
    frame = folder.frame()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_durably(Path(path), frame.to_parquet(index=False, compression="zstd"))
    return frame

"""Where the real data are: ``$ONEPOS_DATA``, else ``../shared/data`` beside the repository."""

import json
import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


def _folder() -> Path:
    return Path(os.environ.get("ONEPOS_DATA") or _BESIDE)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = _folder()
    if not (folder / "manifest.json").is_file():
        pytest.skip("needs real data: point ONEPOS_DATA to a folder with manifest.json, or fill ../shared/data")
    return folder


@pytest.fixture(scope="session")
def manifest(data_folder):
    return json.loads((data_folder / "manifest.json").read_text())


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("ONEPOS_DATA", "ONEPOS_MIRRORS", "ONEPOS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)

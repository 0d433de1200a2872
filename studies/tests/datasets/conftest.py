"""The list of the real data sets, and an environment in which nothing is set."""

import json

import pytest


@pytest.fixture(scope="session")
def manifest(data_folder):
    return json.loads((data_folder / "manifest.json").read_text())


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("ONEPOS_DATA", "ONEPOS_MIRRORS", "ONEPOS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)

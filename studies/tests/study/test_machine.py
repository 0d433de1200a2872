"""What the process knows about its machine."""

import pytest

from onepos_studies.study import machine


@pytest.mark.parametrize("status", [None, "Name:\tpython\nVmRSS:\t  5 kB\n"])
def test_the_peak_of_memory_is_known_without_the_word_of_the_kernel(monkeypatch, tmp_path, status):
    file = tmp_path / "status"
    if status is not None:
        file.write_text(status)
    monkeypatch.setattr(machine, "_STATUS", file)
    assert machine.peak_megabytes() > 1

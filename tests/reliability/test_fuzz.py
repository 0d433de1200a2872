"""Damaged files of every format: only the library's own errors come out, in time and within memory.

The long run is `python benchmarks/reliability/fuzz.py --cases 10000`; benchmarks/reliability/README.md has its figures.
"""

import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "reliability"))  # scripts, not a package

import fuzz
from formats import all_formats
from mutations import mutate

#: Forged models are not damaged bytes; they have a test in tests/persistence.
FORMATS = {name: make for name, make in all_formats().items() if name != "forged"}
needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory limit is set by /proc")


@pytest.mark.filterwarnings("ignore:n_neighbors=20 needs more")  # while the model to be damaged is made
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_read_or_refused(name, tmp_path):
    form = FORMATS[name]()
    for other, content in form.beside:
        (tmp_path / other).write_bytes(content)
    path = tmp_path / form.file_name
    refused = []
    for number in range(100):
        path.write_bytes(fuzz.make_case(form, 7, number))
        refused.append(fuzz.read_case(form, path) is not None)
    assert not refused[0]  # the undamaged one
    assert sum(refused) > 20


@needs_proc
@pytest.mark.long
@pytest.mark.parametrize("name", ["parquet", "model"])
def test_damaged_binary_files_in_a_process_with_little_memory(name):
    """Compiled code reads these: a process of its own shows crashes, hangs and hunger for memory."""
    cases = 100
    counts = fuzz.run_format(name, cases, seed=8)
    assert counts["defects"] == []
    assert counts["accepted"] + counts["refused"] == counts["cases"] == cases


def test_the_damage_repeats_itself_and_is_varied():
    form = FORMATS["csv"]()
    again = [fuzz.make_case(form, 3, number) for number in range(1, 60)]
    assert again == [fuzz.make_case(form, 3, number) for number in range(1, 60)]
    assert len(set(again)) > 50
    assert fuzz.make_case(form, 3, 0) == form.seeds[0].content


@needs_proc
@pytest.mark.long
def test_the_fuzzer_notices_errors_hangs_crashes_and_hunger(monkeypatch, tmp_path):
    """Its own test: readers that misbehave on purpose, in the process that the fuzzer starts."""
    script = tmp_path / "fuzz.py"
    source = Path(fuzz.__file__)
    bad = {
        "error": "{}['x']",
        "loop": "all(iter(lambda: True, False))",
        "crash": "__import__('os').kill(__import__('os').getpid(), 11)",
        "hunger": "bytearray(2 << 30)",
    }
    readers = ", ".join(f"{name!r}: lambda path: {body}" for name, body in bad.items())
    script.write_text(
        f"import sys; sys.path.insert(0, {str(source.parent)!r})\n"
        "import formats\n"
        f"readers = {{{readers}}}\n"
        "def made(name):\n"
        "    calls = []\n"
        "    def read(path):\n"
        "        calls.append(1)\n"
        "        return readers[name](path) if len(calls) == 3 else None\n"
        "    return lambda: formats.Format('seed.txt', (formats.Seed(b'abc'),), read)\n"
        "formats.all_formats = lambda: {name: made(name) for name in readers}\n"
        + source.read_text().replace("SECONDS, PATIENCE = 5.0, 60.0", "SECONDS, PATIENCE = 2.0, 60.0")
    )
    monkeypatch.setattr(fuzz, "__file__", str(script))
    monkeypatch.setattr(fuzz, "SECONDS", 2.0)
    found = {name: fuzz.run_format(name, 2) for name in bad}
    whats = {name: [(d["number"], d["what"]) for d in counts["defects"]] for name, counts in found.items()}
    assert whats["error"] == [(1, "KeyError: 'x'")]
    assert [number for name in list(bad)[1:] for number, _ in whats[name]] == [1, 1, 1]
    assert "no answer after 2 s of work" in whats["loop"][0][1]
    assert "died (-11)" in whats["crash"][0][1]
    assert "MemoryError" in whats["hunger"][0][1]


def _check(name, folder, content):
    form = FORMATS[name]()
    for other, beside in form.beside:
        (folder / other).write_bytes(beside)
    path = folder / form.file_name
    path.write_bytes(content)
    fuzz.read_case(form, path)


SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = [name for name in FORMATS if name not in ("mat", "npz", "parquet", "model")]


@SETTINGS
@given(name=st.sampled_from([name for name in FORMATS if name != "model"]), content=st.binary(max_size=400))
def test_any_bytes(tmp_path, name, content):
    _check(name, tmp_path, content)


@SETTINGS
@given(data=st.data(), name=st.sampled_from(TEXTS))
def test_lines_of_the_format_in_any_order_with_any_text_between(tmp_path, data, name):
    lines = [line for seed in FORMATS[name]().seeds for line in seed.content.split(b"\n")]
    other = st.text(max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass"))
    chosen = data.draw(st.lists(st.one_of(st.sampled_from(lines), st.sampled_from(lines), other), max_size=20))
    _check(name, tmp_path, b"\n".join(chosen))


@SETTINGS
@given(name=st.sampled_from(TEXTS), seed=st.randoms(use_true_random=False))
def test_damage_that_hypothesis_can_shrink(tmp_path, name, seed):
    form = FORMATS[name]()
    _check(name, tmp_path, mutate(form.seeds[0].content, random.Random(seed.random())))

"""The command line: what it prints where, and with which exit code it ends."""

import functools
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pandas as pd
import pytest

import onepos
import onepos.pages.demo
from onepos.cli import main

TINY = {"n_rows": 200}


@pytest.fixture
def tiny_demo(monkeypatch):
    monkeypatch.setattr(onepos.pages.demo, "run_demo", functools.partial(onepos.pages.demo.run_demo, **TINY))


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEPOS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ONEPOS_OFFLINE", "1")


def is_one_line(text):
    return text.startswith("onepos: ") and text.count("\n") == 1 and "Traceback" not in text


def test_version(run):
    assert run("--version") == (0, f"onepos {onepos.__version__}\n", "")


def test_help(run):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert run() == (code, out, err)
    for command in ("demo", "methods", "fit"):
        assert command in out
    assert "--json" in run("methods", "--help")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("nosuch",),
        ("--nosuch",),
        ("demo", "--seed", "-1"),
        ("demo", "--seed", "many"),
        ("demo", "--out", __file__),
    ],
)
def test_bad_usage_and_bad_input_end_with_2_and_one_line(run, arguments, empty_cache):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert is_one_line(err)


def test_methods(run):
    code, out, _ = run("methods")
    assert code == 0
    assert "smile" in out
    records = json.loads(run("methods", "--json")[1])
    assert {record["key"] for record in records} == set(onepos.list_methods().index)
    assert next(r for r in records if r["key"] == "logistic")["year"] is None


def test_demo_prints_rows_shares_places_and_commands(run, tiny_demo, tmp_path):
    code, out, err = run("demo", "--out", str(tmp_path))
    assert code == 0
    for method in (onepos.pages.demo.METHOD, *onepos.pages.demo.OTHERS):
        assert f"\n {method} " in out
    assert all(word in out for word in ("Sudani from", "Doctor: no errors", "Review page: ", "Time: "))
    assert "comparing with forest" in err
    for name in ("table.csv", "completed.csv", "review.html"):
        assert str(tmp_path / name) in out
        assert (tmp_path / name).is_file()


def test_the_commands_that_the_demo_prints_give_its_result(run, tiny_demo, tmp_path):
    printed = run("demo", "--out", str(tmp_path))[1]
    completed = pd.read_csv(tmp_path / "completed.csv")["suggested"]
    commands = [shlex.split(line)[1:] for line in printed.splitlines() if line.startswith("onepos ")]
    assert [command[0] for command in commands] == ["doctor", "fit", "complete"]
    for command in commands:
        code, said, err = run(*command)
        assert code == 0, err
    suggested = re.search(r"^([\d,]+) genres suggested", printed, re.MULTILINE)[1]
    assert f"{suggested} tags suggested beside the given ones" in said
    assert pd.read_csv(tmp_path / "completed.csv")["suggested"].equals(completed)


def test_demo_json(run, tiny_demo, tmp_path):
    code, out, err = run("demo", "--out", str(tmp_path), "--seed", "5", "--json")
    assert code == 0
    result = json.loads(out)
    assert list(result["methods"]) == [onepos.pages.demo.METHOD, *onepos.pages.demo.OTHERS]
    assert result["facts"]["rows"] == len(result["rows"]) == TINY["n_rows"]
    assert result["rows"][0]["true"] == ["Comedies", "Dramas", "International Movies"]
    assert result["files"]["review"] == str(tmp_path / "review.html")
    assert "training" in err


def test_an_internal_error_ends_with_1_and_shows_where(run, monkeypatch, tmp_path):
    def fail(**options):
        raise RuntimeError("a bug")

    monkeypatch.setattr(onepos.pages.demo, "run_demo", fail)
    code, out, err = run("demo", "--out", str(tmp_path))
    assert (code, out) == (1, "")
    assert "RuntimeError: a bug" in err
    assert err.splitlines()[-1].startswith("onepos: this is an internal error")


def test_ctrl_c_ends_with_130(run, monkeypatch, tmp_path):
    def interrupt(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr(onepos.pages.demo, "run_demo", interrupt)
    code, out, err = run("demo", "--out", str(tmp_path))
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "onepos: interrupted."


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_while_a_network_trains(tmp_path):
    command = [sys.executable, "-m", "onepos", "demo", "--out", str(tmp_path)]
    # A shell starts background jobs with SIGINT ignored, and so would this one if the tests run in one.
    ready = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **ready) as process:
        for line in process.stderr:
            if "comparing with network" in line:
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "Warning" not in err
    assert err.endswith("onepos: interrupted.\n")


def python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=600, check=False
    )


def test_help_does_not_import_torch():
    code = "import sys, atexit\natexit.register(lambda: sys.stderr.write(str('torch' in sys.modules)))\n"
    done = python(f"{code}from onepos.cli import main\nmain()", "--help")
    assert done.returncode == 0
    assert done.stderr == "False"


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_one_line_says_so(package):
    done = python(f"import sys\nsys.modules['{package}'] = None\nfrom onepos.cli import main\nmain()", "demo")
    assert done.returncode == 2
    assert done.stdout == ""
    if package == "typer":
        expected = 'the command line needs typer, which is not installed: pip install "onepos[cli]"\n'
        assert done.stderr == expected
    else:
        assert 'pip install "onepos[cli]"' in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="no POSIX pipes")
@pytest.mark.parametrize("arguments", [("methods",), ("methods", "--json")])
def test_a_closed_pipe_is_no_error(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "onepos", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_unicode_gets_question_marks(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with pytest.raises(SystemExit) as ended:
        main(["datasets", "info", "yeast"])
    assert ended.value.code == 0
    assert b"Class1 ? Class14" in written.getvalue()


def test_settings_are_values():
    from onepos.cli.options import settings

    made = settings(["max_epochs=5", "network=[64, 32]", "scale=minmax", "patience=none"])
    assert made == {"max_epochs": 5, "network": [64, 32], "scale": "minmax", "patience": None}


@pytest.mark.parametrize("command", ["bench", "datasets"])
def test_a_command_of_the_studies_says_what_to_install_without_them(run, monkeypatch, command):
    monkeypatch.setattr(onepos.cli, "entry_points", lambda **which: ())
    onepos.cli.commands.cache_clear()
    try:
        assert run(command, "run") == (
            2,
            "",
            f"onepos: `onepos {command}` is in another package: pip install onepos-studies\n",
        )
        assert command not in run("--help")[1].split()
    finally:
        onepos.cli.commands.cache_clear()

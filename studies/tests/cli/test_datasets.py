"""The commands on data sets."""

import json

import pandas as pd
import pytest

from onepos_studies import datasets
from onepos_studies.exceptions import DownloadError


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEPOS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ONEPOS_OFFLINE", "1")


def is_one_line(text):
    return text.startswith("onepos: ") and text.count("\n") == 1 and "Traceback" not in text


def test_datasets_list(run, empty_cache):
    code, out, _ = run("datasets", "list")
    assert code == 0
    assert "yeast" in out
    records = json.loads(run("datasets", "list", "--json")[1])
    assert [record["name"] for record in records] == list(datasets.list_datasets()["name"])
    assert not any(record["available"] for record in records)


@pytest.mark.parametrize("name", ["yeast", "MIRFLICKR"])
def test_datasets_info(run, name):
    code, out, _ = run("datasets", "info", name)
    assert code == 0
    facts = json.loads(run("datasets", "info", name, "--json")[1])
    assert facts["name"] == name.lower()
    assert facts["citation"] in out
    for file in facts["files"]:
        assert file["urls"][0] in out


def test_datasets_fetch(run, monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "fetch_dataset", lambda name, **options: [tmp_path / name])
    assert run("datasets", "fetch", "yeast", "Scene") == (0, f"yeast  {tmp_path}/yeast\nscene  {tmp_path}/scene\n", "")
    code, out, _ = run("datasets", "fetch", "yeast", "--json")
    assert code == 0
    assert json.loads(out) == {"yeast": [str(tmp_path / "yeast")]}


def test_a_failed_download_is_one_line(run, monkeypatch):
    def fail(name, **options):
        raise DownloadError("no source\nof it answers.")

    monkeypatch.setattr(datasets, "fetch_dataset", fail)
    assert run("datasets", "fetch", "yeast") == (2, "", "onepos: no source of it answers.\n")


@pytest.mark.parametrize("fine", [True, False])
def test_datasets_verify(run, monkeypatch, fine):
    facts = pd.DataFrame({"expected": [3.0, float("nan")], "found": [3.0, 1.5], "ok": [True, fine]}, index=["a", "b"])
    monkeypatch.setattr(datasets, "verify_dataset", lambda name, **options: facts)
    code, out, err = run("datasets", "verify", "yeast")
    assert code == (0 if fine else 2)
    assert ("WRONG" in out) is not fine
    assert err == "" if fine else is_one_line(err)
    code, out, _ = run("datasets", "verify", "yeast", "--json")
    assert code == (0 if fine else 2)
    assert json.loads(out)["yeast"]["b"] == {"expected": None, "found": 1.5, "ok": fine}


ARFF = """@relation toy
@attribute a numeric
@attribute 'b b' numeric
@attribute red {0,1}
@attribute blue {0,1}
@data
"""


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_converted_file_is_one_that_fit_reads(run, tmp_path, suffix):
    lines = [f"{i % 7},{i % 3},{i % 2},{1 - i % 2 or int(i % 5 == 0)}" for i in range(40)]
    (tmp_path / "toy.arff").write_text(ARFF + "\n".join(lines) + "\n")
    names = "".join(f'<label name="{name}"></label>' for name in ("red", "blue"))
    (tmp_path / "toy.xml").write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{names}</labels>')
    table = tmp_path / f"toy{suffix}"
    code, out, _ = run("datasets", "convert", tmp_path / "toy.arff", table)
    assert code == 0
    command = f"onepos fit {table} --label tags --separator ';'"
    assert out == f"40 rows in {table}: {command}\n"
    fit = run(
        "fit", table, "--label", "tags", "--separator", ";", "--method", "frequency", "--out", tmp_path / "m", "--json"
    )
    assert fit[0] == 0
    assert json.loads(fit[1])["labels"] == {"blue": 24, "red": 20}


def test_a_feature_with_the_name_of_the_column_of_tags(run, tmp_path):
    (tmp_path / "toy.arff").write_text(ARFF.replace("'b b'", "tags") + "1,2,0,1\n")
    (tmp_path / "toy.xml").write_text('<labels xmlns="x"><label name="red"/><label name="blue"/></labels>')
    code, _, err = run("datasets", "convert", tmp_path / "toy.arff", tmp_path / "toy.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "name the column of tags with --label" in err

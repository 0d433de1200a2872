"""Every data set at hand, through the public loader, against the manifest."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

from onepos.exceptions import DataFileError, LabelWarning
from onepos_studies.datasets import fetch_dataset, list_datasets, load_dataset, verify_dataset
from onepos_studies.datasets._catalogue import registry
from onepos_studies.exceptions import ChecksumError, DownloadError

PAPER = [
    *("CAL500", "image", "scene", "yeast", "corel5k", "rcv1-s1", "corel16k-s1", "delicious"),
    *("iaprtc12", "espgame", "mirflickr", "tmc2007"),
]
REGISTRY = registry()
SPARSE = {"corel5k", "rcv1-s1", "corel16k-s1", "delicious", "tmc2007", "mirflickr-tags"}
PUBLIC = [name for name, entry in REGISTRY.items() if not entry.supplied and name != "netflix"]
TABLES = Path(os.environ.get("ONEPOS_TABLES") or Path(__file__).resolve().parents[4] / "shared" / "tables")


@pytest.mark.parametrize("name", PUBLIC)
def test_loader_agrees_with_the_manifest(data_folder, manifest, name):
    fact = manifest[name]
    data = load_dataset(name, data_home=data_folder, offline=True, drop_unlabelled=False)
    assert data.X.shape == (fact["instances"], fact["features"])
    assert data.Y.shape == (fact["instances"], fact["labels"])
    assert (data.X.dtype, data.Y.dtype) == (np.float32, np.uint8)
    assert set(np.unique(data.Y)) == {0, 1}
    assert sparse.issparse(data.X) == (name in SPARSE)
    assert data.X.sum(dtype=np.float64) == pytest.approx(fact["feature_sum"], rel=1e-5)
    assert data.Y.sum(axis=1).mean() == pytest.approx(fact["cardinality"], abs=1e-4)
    assert sorted(data.Y.sum(axis=0).tolist(), reverse=True)[:5] == fact["label_count_sorted_first5"]
    assert int((data.Y.sum(axis=1) == 0).sum()) == fact["rows_without_label"]
    assert (len(data.feature_names), len(data.label_names)) == (fact["features"], fact["labels"])
    assert data.info["matches_paper"] == fact["matches_paper"]
    json.dumps(data.info)


@pytest.mark.parametrize("name", sorted(SPARSE))
def test_sparse_sets_are_sparse(data_folder, name):
    entry = REGISTRY[name]
    assert entry.feature_sum / (entry.instances * entry.features) < 0.1


def test_registry_agrees_with_the_manifest(manifest):
    assert list(REGISTRY)[:12] == PAPER
    assert set(PUBLIC) == set(manifest)
    for name, fact in manifest.items():
        entry = REGISTRY[name]
        for key in (
            "instances",
            "features",
            "labels",
            "cardinality",
            "rows_without_label",
            "feature_sum",
            "matches_paper",
        ):
            assert getattr(entry, key) == fact[key], (name, key)
        for ours, theirs in zip(entry.files, fact["files"], strict=True):
            for key in ("file", "repository", "commit", "path", "bytes", "sha256"):
                assert getattr(ours, key) == theirs.get(key), (name, key)
        assert entry.citation
        assert entry.licence


@pytest.mark.skipif(not (TABLES / "manifest.json").is_file(), reason="point ONEPOS_TABLES to the folder of the tables")
def test_the_table_is_loaded_with_its_columns(tmp_path):
    fact = json.loads((TABLES / "manifest.json").read_text())["netflix"]
    entry = REGISTRY["netflix"]
    assert [getattr(entry.files[0], key) for key in ("repository", "commit", "path", "bytes", "sha256")] == [
        fact[key] for key in ("repository", "commit", "path", "bytes", "sha256")
    ]
    (tmp_path / "netflix").mkdir()
    (tmp_path / "netflix" / "netflix_titles.csv").write_bytes((TABLES / fact["file"]).read_bytes())
    data = load_dataset("netflix", data_home=tmp_path, offline=True)
    assert [*data.X.columns, "show_id", "listed_in"] == [
        *(name for name in fact["columns"] if name not in ("show_id", "listed_in")),
        "show_id",
        "listed_in",
    ]
    assert data.Y.shape == (fact["rows"], fact["n_labels"])
    assert data.Y.sum(axis=1).mean() == pytest.approx(fact["cardinality"], abs=1e-4)
    assert data.label_names[:2] == ["Action & Adventure", "Anime Features"]
    assert verify_dataset("netflix", data_home=tmp_path, offline=True)["ok"].all()


def test_urls_are_pinned_to_a_commit():
    file = REGISTRY["yeast"].files[0]
    assert file.urls == (
        f"https://raw.githubusercontent.com/tsoumakas/mulan/{file.commit}/data/multi-label/yeast/yeast.arff",
    )
    assert REGISTRY["mirflickr-tags"].files[0].urls == ()


def test_rows_without_label_are_dropped_and_counted(data_folder):
    with pytest.warns(LabelWarning, match="2 of 20770 rows carry no label"):
        data = load_dataset("ESPGAME-hue", data_home=data_folder, offline=True)
    assert data.X.shape[0] == data.Y.shape[0] == 20768
    assert data.Y.any(axis=1).all()
    assert data.info["rows_dropped"] == 2


def test_environment_names_the_folder(data_folder, monkeypatch):
    monkeypatch.setenv("ONEPOS_DATA", str(data_folder))
    monkeypatch.setenv("ONEPOS_OFFLINE", "1")
    assert load_dataset("CAL500").Y.shape == (502, 174)


@pytest.mark.parametrize("name", ["yeast", "tmc2007", "espgame-hue"])
def test_verify_recomputes_the_facts(data_folder, name):
    report = verify_dataset(name, data_home=data_folder, offline=True)
    assert report["ok"].all()
    assert list(report.index) == [
        "instances",
        "features",
        "labels",
        "rows_without_label",
        "cardinality",
        "feature_sum",
    ]


def test_verify_notices_another_sum(data_folder, monkeypatch):
    import dataclasses

    from onepos_studies.datasets import _catalogue as _registry

    other = dataclasses.replace(REGISTRY["yeast"], feature_sum=15.38)
    monkeypatch.setattr(_registry, "registry", lambda: {"yeast": other})
    report = verify_dataset("yeast", data_home=data_folder, offline=True)
    assert report.index[~report["ok"]].tolist() == ["feature_sum"]


def test_list_says_what_is_available(data_folder, tmp_path):
    table = list_datasets(data_home=data_folder)
    assert list(table.columns) == [
        *("name", "instances", "features", "labels", "cardinality", "matches_paper", "available", "note"),
    ]
    assert table["name"].tolist() == list(REGISTRY)
    assert set(table.loc[table["available"], "name"]) >= set(PUBLIC)
    assert not list_datasets(data_home=tmp_path)["available"].any()


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"'yeats'; known: CAL500, image"):
        load_dataset("yeats")


@pytest.mark.parametrize("rows", [20770, 20768])
def test_user_supplied_file_is_checked_and_loaded(tmp_path, rows):
    (tmp_path / "espgame").mkdir()
    Y = np.zeros((rows, 268), dtype=np.uint8)
    Y[:20768, 0] = 1
    savemat(
        tmp_path / "espgame" / "espgame.mat",
        {"X": np.zeros((rows, 1000), dtype=np.uint8), "Y": Y},
        do_compression=True,
    )
    data = load_dataset("espgame", data_home=tmp_path, drop_unlabelled=False)
    assert data.X.shape == (rows, 1000)
    report = verify_dataset("espgame", data_home=tmp_path)
    assert report.index[~report["ok"]].tolist() == ["cardinality"]  # these labels are made up


def test_user_supplied_file_missing_or_of_other_size(tmp_path):
    with pytest.raises(DownloadError, match=r"no public direct source.*palm-ml/smile.*mirflickr/mirflickr\.npz"):
        load_dataset("mirflickr", data_home=tmp_path)
    (tmp_path / "iaprtc12").mkdir()
    np.savez(tmp_path / "iaprtc12" / "iaprtc12.npz", X=np.ones((5, 100)), Y=np.ones((5, 291)))
    with pytest.raises(DataFileError, match="19627 rows, 1000 features and 291 labels expected; got 5, 100 and 291"):
        load_dataset("iaprtc12", data_home=tmp_path)
    with pytest.raises(DownloadError, match=r"no public source.*joining two public lists"):
        fetch_dataset("mirflickr-tags", data_home=tmp_path)


def test_tampered_cached_file_is_refused_also_after_a_good_load(data_folder, tmp_path):
    (tmp_path / "CAL500").mkdir()
    for file in ("cal500.arff", "cal500.xml"):
        (tmp_path / "CAL500" / file).write_bytes((data_folder / "CAL500" / file).read_bytes())
    load_dataset("CAL500", data_home=tmp_path, offline=True)
    path = tmp_path / "CAL500" / "cal500.arff"
    path.write_bytes(path.read_bytes().replace(b"0.08254", b"0.98254", 1))
    with pytest.raises(ChecksumError, match="Delete it, or fetch it again"):
        load_dataset("CAL500", data_home=tmp_path, offline=True)


def test_files_at_hand_load_without_pooch_and_import_stays_light(data_folder):
    code = (
        "import sys; sys.modules['pooch'] = None\n"
        "import onepos; before = set(sys.modules)\n"
        "import onepos_studies.datasets as d\n"
        "new = set(sys.modules) - before\n"
        "heavy = {'pandas', 'torch', 'sklearn', 'pyarrow', 'scipy.io', 'rich'} & new\n"
        "assert not heavy, heavy\n"
        f"print(d.load_dataset('CAL500', data_home={str(data_folder)!r}, offline=True).X.shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.strip() == "(502, 68)", done.stderr

"""Study files: what they may say, what they mean, and errors that name the place."""

import hashlib
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onepos_studies.exceptions import StudyError
from onepos_studies.study import cells_of, parse_study, read_study, shipped_studies
from onepos_studies.study.spec import DataGroup, MethodEntry, Protocol, Record, Tuning, settings_of

BASE = """
[study]
name = "tiny"
trials = 3
[[data]]
sets = ["known-posterior"]
[[method]]
key = "an"
"""


def test_defaults_are_the_papers_protocol():
    study = parse_study(BASE)
    assert study.fractions == (0.8, 0.1, 0.1)
    assert (study.rules, study.metric, study.positive_rule) == (("clean",), "average_precision", "uniform")
    assert len(cells_of(study)) == 3


def test_the_documented_file_is_valid_and_has_every_field(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "study-file.md").read_text(encoding="utf-8")
    example = "    [study]" + page.partition("    [study]")[2].partition("\nA method's own")[0]
    text = textwrap.dedent(example)
    (tmp_path / "movies.csv").write_text("plot,genres\na b,Comedy\n")
    checksum = hashlib.sha256((tmp_path / "movies.csv").read_bytes()).hexdigest()
    text = text.replace('"…"', f'"{checksum}"')
    study = parse_study(text, folder=tmp_path)
    assert study.datasets == ("image:uniform", "image:frequency", "scene:uniform", "scene:frequency", "movies")
    assert study.methods[0].name == "smile-five"
    content = tomllib.loads(text)
    assert set(content["study"]) == {field.name for field in fields(Protocol)}
    for entry, spec in (
        (content["data"][0] | content["data"][1], DataGroup),
        (content["method"][0] | content["method"][1], MethodEntry),
        (content["tuning"], Tuning),
        (content["record"], Record),
    ):
        assert set(entry) == {field.name for field in fields(spec)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("trials = 3", "trials = 0"), "study.trials: Input should be greater than or equal to 1; got 0"),
        (("trials = 3", "trials = true"), "study.trials: Input should be a valid integer; got True"),
        (('name = "tiny"', ""), "study.name: Field required"),
        (("trials = 3", "trials = 3\nepochs = 5"), "study.epochs: Unexpected keyword argument; got 5"),
        (("known-posterior", "no-such-set"), "unknown data sets: no-such-set; known: digit-scenes"),
        (('"an"', '"nan"'), r"\[\[method\]\] key: unknown method 'nan'. Did you mean 'an'"),
        (('"an"', '"no_such_package:A"'), "cannot import no_such_package:A"),
        (('"an"', '"json:loads"'), "must be a class that derives from a onepos classifier"),
        (('sets = ["known-posterior"]', 'file = "none.npz"'), "no data file none.npz"),
        (('sets = ["known-posterior"]', 'file = "a.csv"'), "read of a.csv: say which column holds the tags"),
        (('sets = ["known-posterior"]', 'file = "a.doc"'), "cannot tell the format of 'a.doc'"),
        (
            ('sets = ["known-posterior"]', 'file = "a.mat"\nread = { label = "x" }'),
            "takes features, labels, orientation",
        ),
        (('sets = ["known', 'file = "x.csv"\nsets = ["known'), "has sets or one file"),
        (('sets = ["known', 'read = { label = "x" }\nsets = ["known'), "name, read and sha256 describe a file"),
        (('key = "an"', 'key = "an"\nfixed = { l2 = 1 }'), "method 'an' has no parameter l2; it has: .*batch_size"),
        (
            ('key = "an"', 'key = "an"\ngrid = { dropout = 0.5 }'),
            "method.0.grid.dropout: Input should be a valid array; got 0.5",
        ),
        (('key = "an"', 'key = "an"\n[[method]]\nkey = "an"'), "method name given more than once: an"),
        (('key = "an"', 'key = "an"\nname = "an-full"'), "are those of methods with complete = true"),
        (('key = "an"', 'key = "an"\nname = "best"\ncomplete = true'), "are those of methods with complete = true"),
        (('key = "an"', 'key = "an"\ncomplete = 1'), "method.0.complete: Input should be a valid boolean; got 1"),
        (('sets = ["known-posterior"]', "sets = []"), "at least one data set"),
        (("trials = 3", "trials = 3\nfractions = [0.8, 0.1, 0.2]"), "the fractions must sum to 1; got"),
        (
            ("trials = 3", 'trials = 3\nrules = ["dirty"]'),
            "study.rules.0: Input should be 'clean' or 'single-positive'; got 'dirty'",
        ),
        (("[[data]]", "[common]\nmax_epoch = 3\n[[data]]"), "no method of the study has a parameter max_epoch"),
        (("[[data]]", '[tuning]\nkeep_each = ["rate"]\n[[data]]'), "no method of the study has a parameter rate"),
        (
            ("[[data]]", '[tuning]\nwhen = "never"\n[[data]]'),
            "tuning.when: Input should be 'first-trial' or 'each-trial'",
        ),
        (("[[data]]", "[data]"), "data: Input should be a valid array"),
        (
            ('sets = ["known', 'train_fractions = [1.5]\nsets = ["known'),
            "data.0.train_fractions.0: Input should be less than or equal to 1; got 1.5",
        ),
        (("trials = 3", "trials = 3\nrules = []"), "study.rules: .* at least 1 item"),
        (('sets = ["known', 'rules = ["dirty"]\nsets = ["known'), "data.0.rules.0: Input should be 'clean'"),
        (("[[data]]", "[common]\ngrid = { dropout = 0.5 }\n[[data]]"), "dropout: Input should be a valid tuple"),
        (("trials = 3", "trials = = 3"), "not valid TOML"),
        (("[study]", "[studies]"), "study: Field required"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(StudyError, match=message):
        parse_study(BASE.replace(*change))


def test_a_group_may_have_rules_of_its_own():
    text = BASE.replace("trials = 3", 'trials = 3\nrules = ["clean", "single-positive"]')
    text += '[[data]]\nsets = ["digit-scenes"]\nrules = ["clean"]\n'
    rules = {(cell.dataset, cell.rule) for cell in cells_of(parse_study(text))}
    both = {("known-posterior", "clean"), ("known-posterior", "single-positive")}
    assert rules == both | {("digit-scenes", "clean")}


def test_missing_file_and_binary_file(tmp_path):
    with pytest.raises(StudyError, match=r"no study 'absent': give a TOML file or one of .*smoke"):
        read_study("absent")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="not a text file"):
        read_study(tmp_path / "x.toml")


def test_hash_changes_with_the_protocol_only():
    study = parse_study(BASE)
    assert parse_study(BASE.replace("[[data]]", "\n# a remark\n[[data]]")).content_hash == study.content_hash
    described = BASE.replace("trials = 3", 'trials = 3\ndescription = "words"')
    assert parse_study(described).content_hash == study.content_hash
    for change in (("trials = 3", "trials = 4"), ("trials = 3", "trials = 3\nseed = 1"), ('"an"', '"wan"')):
        assert parse_study(BASE.replace(*change)).content_hash != study.content_hash


def test_what_is_nearer_to_the_method_wins():
    text = """
    [study]
    name = "layers"
    trials = 1
    [common]
    max_epochs = 5
    batch_size = 16
    grid = { learning_rate = [1e-3, 1e-2], dropout = [0.0, 0.5] }
    [[data]]
    sets = ["known-posterior"]
    fixed = { dropout = 0.25 }
    grid = { scale = ["minmax", "standard"] }
    [[method]]
    key = "an"
    fixed = { batch_size = 64 }
    per_dataset = { known-posterior = { learning_rate = 0.5 } }
    [[method]]
    key = "logistic"
    [[method]]
    key = "frequency"
    """
    study = parse_study(text)
    found = {m.key: settings_of(study, study.data[0], m, "known-posterior") for m in study.methods}
    an = {"max_epochs": 5, "batch_size": 64, "dropout": 0.25, "learning_rate": 0.5}
    assert found["an"] == [an | {"scale": "minmax"}, an | {"scale": "standard"}]
    assert found["logistic"] == [{"scale": "minmax"}, {"scale": "standard"}]
    assert found["frequency"] == [{}]


@pytest.mark.parametrize("name", shipped_studies())
def test_shipped_studies_are_valid(name):
    study, text = read_study(name)
    assert study.name == name
    assert study.description
    assert text == shipped_studies()[name]
    identities = [cell.id for cell in cells_of(study)]
    assert len(set(identities)) == len(identities)


def test_cells_depend_on_their_own_protocol_alone():
    """Adding a method or a data set leaves the other cells as they were; changing the epochs does not."""
    before = {cell.id for cell in cells_of(parse_study(BASE))}
    more = BASE.replace('"known-posterior"', '"known-posterior", "digit-scenes"') + '[[method]]\nkey = "wan"\n'
    after = {cell.id for cell in cells_of(parse_study(more))}
    assert before < after
    assert len(after) == 4 * len(before)
    longer = {cell.id for cell in cells_of(parse_study(BASE.replace("[[data]]", "[common]\nmax_epochs = 7\n[[data]]")))}
    assert not before & longer


def test_later_trials_take_over_the_first_ones_choice():
    grid = BASE.replace("[[data]]", "[common]\ngrid = { learning_rate = [1e-3, 1e-2] }\n[[data]]")
    assert [cell.takes_over for cell in cells_of(parse_study(grid))] == [None, 0, 0]
    each = grid + '\n[tuning]\nwhen = "each-trial"\n'
    assert [cell.takes_over for cell in cells_of(parse_study(each))] == [None, None, None]
    small = grid + "\n[tuning]\neach_trial_below = 3000\n"
    assert [cell.takes_over for cell in cells_of(parse_study(small))] == [None, None, None]
    assert [cell.takes_over for cell in cells_of(parse_study(BASE))] == [None, None, None]


def test_the_study_of_pictures_is_valid_beside_its_table(tmp_path):
    folder = Path(__file__).parents[2] / "pictures"
    pd.DataFrame({"picture": ["a.jpg", "b.jpg"], "tags": ["cat", "cat;dog"]}).to_csv(tmp_path / "labels.csv")
    np.save(tmp_path / "features.npy", np.eye(2, dtype=np.float16))
    made = [tmp_path / name for name in ("labels.csv", "features.npy", "voc2012.parquet")]
    subprocess.run([sys.executable, folder / "make_table.py", *made], check=True)
    assert list(pd.read_parquet(made[2])) == ["picture", "tags", "f0", "f1"]
    (tmp_path / "study.toml").write_bytes((folder / "study.toml").read_bytes())
    study, _ = read_study(tmp_path / "study.toml")
    assert [method.key for method in study.methods][-1] == "bce"
    assert study.data[0].name == "voc2012"

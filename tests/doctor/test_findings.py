"""Every finding fires on data made to have it, and alone; clean data are called clean."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from doctor_cases import ALWAYS, BROUGHT_ALONG, CASES, clean, exclusive, indicator, sentences
from onepos.doctor import CODES, Diagnosis, Finding, Summary, diagnose
from onepos.doctor.cardinality import single_share
from onepos.doctor.diagnosis import finding, listed, name_of

DOCS = Path(__file__).parents[2] / "docs" / "doctor.md"


def codes(diagnosis):
    return {finding.code for finding in diagnosis.findings}


@pytest.mark.parametrize("code", CASES)
def test_a_finding_fires_where_it_should_and_alone(code):
    features, tags, options = CASES[code]()
    found = codes(diagnose(features, tags, **options))
    assert code in found
    assert found - {code} <= ALWAYS | BROUGHT_ALONG.get(code, set())


@pytest.mark.parametrize("seed", range(4))
def test_clean_data_are_clean(seed):
    features, tags = clean(seed=seed)
    assert codes(diagnose(features, tags)) == ALWAYS
    assert codes(diagnose(features, indicator(tags))) == ALWAYS
    assert codes(diagnose(features.assign(caption=sentences(len(tags))), tags, text="caption")) == ALWAYS


def test_every_code_has_a_case_and_is_documented_and_no_other():
    assert set(CASES) == set(CODES)
    documented = re.findall(r"^\| `([a-z-]+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted(CODES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", code) for code in CODES)


def test_the_data_stay_as_they_were():
    features, tags = clean()
    before, tags_before = features.copy(), tags.copy()
    first = diagnose(features, tags)
    pd.testing.assert_frame_equal(features, before)
    pd.testing.assert_series_equal(tags, tags_before)
    assert diagnose(features, tags) == first


def test_levels():
    levels = {code: {f.code: f.level for f in diagnose(*case[:2], **case[2]).findings}[code] for code, case in few()}
    assert levels == {"tags-none": "error", "tag-missing": "note", "column-infinite": "error", "label-rare": "warning"}
    features, tags = clean()
    tags.iloc[:100] = None
    assert diagnose(features, tags).worst == "warning"  # a quarter of the tags is missing


def few():
    return [(code, CASES[code]()) for code in ("tags-none", "tag-missing", "column-infinite", "label-rare")]


def test_the_most_serious_come_first():
    features, tags = clean()
    features = features.assign(a=np.inf, unit="cm", red=np.where(np.arange(400) == 3, np.inf, features["red"]))
    diagnosis = diagnose(features, tags)
    order = [finding.level for finding in diagnosis.findings]
    assert order == sorted(order, key=["error", "warning", "note"].index)
    assert diagnosis.worst == "error"


def test_a_high_cardinality_column_does_not_leak_by_chance():
    features, tags = clean()
    rng = np.random.default_rng(0)
    features["serial"] = rng.permutation(len(tags)) * 3.7
    features["street"] = [f"street {i}" for i in rng.integers(300, size=len(tags))]
    assert "column-leaks" not in codes(diagnose(features, tags))


def test_leaks_of_categories_and_of_one_label():
    features, tags = clean()
    noisy = tags.where(np.arange(len(tags)) % 10 > 0, "beach")
    found = diagnose(features.assign(folder=tags.str.upper(), snowy=(tags == "snow"), mostly=noisy.str[:2]), tags)
    (leak,) = [finding for finding in found.findings if finding.code == "column-leaks"]
    assert leak.about == ("folder", "snowy")  # a tenth wrong is no leak


def test_a_leak_does_not_make_labels_exclusive():
    features, tags = clean()
    assert "labels-exclusive" not in codes(diagnose(features.assign(folder=tags.map(hash).astype(float)), tags))


def test_arrays_are_clean_too():
    features, tags = clean()
    numbers = features.drop(columns="camera").to_numpy()
    assert codes(diagnose(numbers, pd.factorize(tags)[0])) == ALWAYS


def test_coarse_columns_coincide_by_chance():
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.choice(["a", "b"], size=(300, 3)), columns=["x", "z", "w"])
    tags = pd.Series(rng.choice(["p", "q"], size=300))
    found = diagnose(features, tags)
    assert {f.code: f.level for f in found.findings}["row-duplicate"] == "note"


def test_summary():
    features, tags = clean()
    tags.iloc[:3] = None
    summary = diagnose(features.assign(flag=features["red"] > 0, when=pd.Timestamp("2026-01-01")), tags).summary
    assert summary.columns == {"number": 5, "category": 1, "boolean": 1, "date": 1}
    assert (summary.rows, summary.labels, summary.tags_missing) == (400, 4, 3)
    assert dict(summary.label_counts) == tags.value_counts().to_dict()
    assert [n for _, n in summary.label_counts] == sorted((n for _, n in summary.label_counts), reverse=True)


def test_dict_text_and_html():
    features, tags = exclusive()
    nasty = "<script>" + "x" * 90 + "\n&"
    diagnosis = diagnose(features.assign(**{nasty: 1}), tags)
    told = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert told["worst"] == "warning"
    assert {entry["code"] for entry in told["findings"]} == codes(diagnosis)
    assert told["summary"]["label_counts"][0].keys() == {"label", "rows"}
    text = diagnosis.to_text()
    assert max(map(len, text.splitlines())) <= 80
    assert all(finding.title in text for finding in diagnosis.findings)
    assert "<script>" not in diagnosis._repr_html_()
    assert "&lt;script&gt;" in diagnosis._repr_html_()


def test_nothing_found():
    empty = Diagnosis(Summary(3, {"number": 1}, 2, 0, (("a", 2), ("b", 1))), ())
    assert empty.worst is None
    assert "Nothing found" in empty.to_text()
    assert "Nothing found" in empty._repr_html_()
    assert Finding("note", "x-y", "t", "d").about == ()


def test_advice_names_options_with_names_quoted_for_the_shell():
    frame = pd.DataFrame({"my id": [f"number{i * 7 % 41}" for i in range(40)], "x": range(40)})
    tags = pd.Series(["sea", "city", "sea;city", "snow"] * 10)
    details = {one.code: one.detail for one in diagnose(frame, tags).findings}
    assert details["column-id"].endswith("Drop: --drop 'my id,x'.")
    assert details["tag-holds-several"].endswith('--separator ";".')


@pytest.mark.parametrize("double", ["Beach", "BEACH ", "bea\u200bch", "\uff42each", "be-ach"])
def test_labels_that_nearly_look_the_same_are_listed(double):
    features, tags = clean()
    known = "be ach" if "-" in double else "beach"
    tags = pd.Series(np.where(np.arange(len(tags)) % 2, known, tags.to_numpy()), dtype=object)
    assert "label-spelling" not in codes(diagnose(features, tags))
    tags[:10] = double
    found = [one for one in diagnose(features, tags).findings if one.code == "label-spelling"]
    assert [len(one.about) for one in found] == [2]
    assert repr(known) in found[0].detail
    assert ascii(double) in found[0].detail or repr(double) in found[0].detail


def test_a_finding_in_words():
    found = finding("column-empty", ["size"])
    assert found.detail == "In 1 column (size): no value at all. Drop: --drop size."


def test_names_in_sentences_are_short():
    assert (name_of("a\nb"), len(name_of("x" * 99))) == ("a b", 40)
    assert listed("abcdefg") == "a, b, c, d, e and 2 more"


def test_the_share_of_rows_with_one_label_is_bounded_by_right_guesses():
    confidence = np.full(1000, 0.9)
    assert single_share(np.ones(1000, dtype=bool), confidence) == pytest.approx(0.992, abs=5e-4)
    assert single_share(np.arange(1000) % 2 == 0, confidence) == 0.0

"""The committed rows of shipped studies are rows of those studies as they are now, each once and each good.

What the page of results says in words is counted again from them.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from onepos.metrics import METRICS, higher_is_better
from onepos.study import cells_of, load_results, read_study
from onepos.study.provenance import code_version, made_by_this_code, repeat_rows
from onepos.study.tables import published_value, significance

ROOT = Path(__file__).parents[2]
FILES = {
    name: ROOT / "studies" / name.replace("-", "_") / "results.parquet"
    for name in ("smile-paper", "ablation", "sufficiency", "modern", "auto", "enhancement", "tables")
}
PAPERS = ("smile", "an", "an-ls", "wan", "role", "glocal", "mlml", "d2ml")


@pytest.fixture(scope="module")
def frames():
    return {name: load_results(file) for name, file in FILES.items()}


@pytest.fixture(scope="module")
def claims():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    return text.partition("## What holds of the paper's claims")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", FILES)
def test_rows_are_the_whole_study(frames, name):
    frame = frames[name]
    study, _ = read_study(name)
    known = {cell.id: cell for cell in cells_of(study)}
    assert set(frame["cell"]) == set(known)
    assert frame["cell"].is_unique
    assert (frame["status"] == "ok").all()
    assert set(frame["study_hash"]) == {study.content_hash}
    for row in frame.to_dict("records"):
        cell = known[row["cell"]]
        found = (row["dataset"], row["method"], row["trial"], row["selection"], row["train_fraction"])
        assert found == (cell.dataset, cell.method, cell.trial, cell.rule, cell.train_fraction)
        assert {"python", "onepos", "torch"} <= set(json.loads(row["versions"]))
        assert {"system", "processor", "cores"} <= set(json.loads(row["machine"]))


@pytest.mark.parametrize("name", FILES)
def test_a_sample_of_the_rows_comes_out_again(frames, name, data_folder, monkeypatch, record_property):
    """Cheap rows of the present code, another sample for each version of it; rows of older code are only counted."""
    monkeypatch.setenv("ONEPOS_DATA", str(data_folder))
    monkeypatch.setenv("ONEPOS_OFFLINE", "1")
    frame, plan = frames[name], cells_of(read_study(name)[0])
    record_property("rows_of_other_code", int((~made_by_this_code(frame)).sum()))
    repeated = repeat_rows(frame, plan, n=2, seed=int(code_version("auto"), 16), most_seconds=5.0)
    # Of the substitutes only some may be on this machine.
    assert not [str(one) for one in repeated if not one.holds and "DownloadError" not in str(one.error)]


def test_in_how_many_pairs_smile_is_the_best(frames, claims):
    rows = frames["smile-paper"]
    rows = rows[(rows["selection"] == "clean") & rows["method"].isin(PAPERS)]
    ours = theirs = 0
    for metric in METRICS:
        means = rows.groupby(["dataset", "method"])[metric].mean().unstack()
        sign = 1 if higher_is_better(metric) else -1
        ours += int(((sign * means).idxmax(axis=1) == "smile").sum())
        for dataset in means.index:
            printed = {method: sign * published_value(metric, dataset, method)[0] for method in PAPERS}
            theirs += printed["smile"] == max(printed.values())
    assert f"in {theirs} of 60 pairs of data set and metric" in claims
    assert f"best in {ours} of 60" in claims


def test_wins_ties_and_losses(frames, claims):
    """The paper's Table 3: seven rivals, five metrics, before and after Holm's correction over all ten rivals."""
    made = significance(frames["smile-paper"], expected_trials=5)
    verdicts = [made.verdicts[metric, rival] for metric in METRICS for rival in PAPERS[1:]]
    words = {1: "one", 2: "two"}
    plain = Counter(verdict.test.outcome for verdict in verdicts)
    holm = Counter(verdict.test.outcome_for(verdict.corrected_p) for verdict in verdicts)
    assert sum(plain.values()) == 35
    assert f"{plain['win']} wins, {plain['tie']} ties and {words[plain['loss']]} loss, to `wan`" in claims
    assert f"After Holm's correction {holm['win']} wins and no loss" in claims
    assert holm["loss"] == 0


def test_what_label_enhancement_is_worth(frames, claims):
    made = significance(frames["ablation"], rivals=("smile-si",), expected_trials=5)
    assert {verdict.test.outcome for verdict in made.verdicts.values()} == {"win"}
    means = frames["ablation"].groupby(["dataset", "method"])["average_precision"].mean().unstack()
    ahead = means["smile"] > means["smile-si"]
    assert int(ahead.sum()) == 10
    assert "Ahead in average precision on ten of twelve sets" in claims
    assert set(ahead.index[~ahead]) == {"CAL500", "image"}


def test_average_ranks(frames, claims):
    rows = frames["smile-paper"]
    rows = rows[(rows["selection"] == "clean") & (rows["method"] != "bce")]
    means = rows.groupby(["dataset", "method"])["average_precision"].mean().unstack()
    ranks = means.rank(axis=1, ascending=False).mean()
    assert f"its average rank there is {ranks['smile']:.1f} of eleven" in claims
    assert f"behind `softmax` ({ranks['softmax']:.1f}), `wan` ({ranks['wan']:.1f}) and" in claims
    assert f"`an` ({ranks['an']:.1f})" in claims


def test_what_helps_smile(frames):
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    text = " ".join(text.partition("## What helps SMILE")[2].partition("<!--")[0].split())
    values = frames["enhancement"].pivot_table(index=["dataset", "trial"], columns="method", values="average_precision")
    gains = values.sub(values["smile"], axis=0).groupby("dataset")
    mean = gains.mean().round(3).map(lambda gain: f"{abs(gain):.3f}".removeprefix("0"))
    ahead = gains.agg(lambda gain: (gain > 0).sum())
    pretrained, embeddings, bayes, together = (
        mean[f"smile-{name}"] for name in ("pretrained", "embeddings", "bayes", "all")
    )
    assert f"gains {pretrained['corel5k']} on corel5k (in all five trials)" in text
    assert f"and {pretrained['rcv1-s1']} on rcv1-s1 (in four)" in text
    assert ahead["smile-pretrained"][["corel5k", "rcv1-s1"]].tolist() == [5, 4]
    assert f"gains {embeddings['rcv1-s1']} on rcv1-s1 and {embeddings['corel5k']} on corel5k (in all five" in text
    assert ahead["smile-embeddings"][["corel5k", "rcv1-s1"]].tolist() == [5, 5]
    assert f"gains {bayes['yeast']} on yeast (in all five trials) and costs {bayes['corel5k']} on corel5k" in text
    assert ahead["smile-bayes"]["yeast"] == 5
    assert f"{together['corel5k']}, {together['rcv1-s1']} and {together['yeast']}" in text
    again = values["smile"].groupby("dataset").mean()
    first = frames["smile-paper"].query("selection == 'clean' and method == 'smile'")
    first = first.groupby("dataset")["average_precision"].mean()
    then, now = (
        ", ".join(f"{run[name]:.3f}".removeprefix("0") for name in ("corel5k", "rcv1-s1", "yeast"))
        for run in (first, again)
    )
    assert " and ".join(then.rsplit(", ", 1)) + " then, " + " and ".join(now.rsplit(", ", 1)) + " now" in text


def test_the_real_table(frames):
    text = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    means = frames["tables"].groupby("method")["average_precision"].mean()
    single = means.drop(["bce", "forest-full"]).sort_values(ascending=False)
    assert single.index[:2].tolist() == ["smile", "logistic"]
    ahead = f"{single.iloc[0] - single.iloc[1]:.3f}".removeprefix("0")
    assert f"SMILE is the best single method, {ahead} ahead of `logistic`" in text

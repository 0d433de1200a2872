"""The committed rows of shipped studies are rows of those studies as they are now, each once and each good.

What the page of results says in words is counted again from them.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onepos.methods.registry import METHODS
from onepos.metrics import METRICS, higher_is_better
from onepos_studies.study import cells_of, load_results, read_study
from onepos_studies.study.provenance import is_current
from onepos_studies.study.repetition import repeat_rows, sample
from onepos_studies.study.tables import load_published, published_value, significance
from results_page import best_blocks, label_blocks
from results_page.source import load_sources

ROOT = Path(__file__).parents[3]
FILES = {
    name: ROOT / "studies" / "rows" / f"{name.replace('-', '_')}.parquet"
    for name in (
        *("smile-paper", "ablation", "modern", "sufficiency"),
        *("auto", "auto-300", "tables", "enhancement", "bias"),
    )
}
PAPERS = ("smile", "an", "an-ls", "wan", "role", "glocal", "mlml", "d2ml")
FULL = ("bce", "forest-full")
SPARSE = ("corel5k", "rcv1-s1", "tmc2007", "corel16k-s1", "delicious")
DENSE = ("CAL500", "image", "scene", "yeast")


@pytest.fixture(scope="module")
def frames():
    return {name: load_results(file) for name, file in FILES.items()}


@pytest.fixture(scope="module")
def page():
    return " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def claims(page):
    return page.partition("## What holds of the paper's claims")[2].partition(" ## ")[0]


@pytest.fixture(scope="module")
def means(frames):
    """Mean of each metric by data set and method, under clean selection."""
    rows = frames["smile-paper"].query("selection == 'clean'")
    return rows.groupby(["dataset", "method"])[list(METRICS)].mean()


def claim(claims, start):
    """What the page finds about a claim of the paper."""
    (line,) = [part for part in claims.split("| | ") if part.startswith(start)]
    return line


def three(value):
    """.019 for 0.0192, and −.006 for −0.0057."""
    return f"{value:.3f}".replace("0.", ".").replace("-", "−")


def between(values):
    return f"between {three(values.min())} and +{three(values.max())}"


@pytest.mark.parametrize("name", FILES)
def test_rows_are_the_whole_study(frames, name):
    frame = frames[name]
    study, _ = read_study(name)
    known = {cell.id: cell for cell in cells_of(study)}
    assert set(frame["cell"]) == set(known)
    assert frame["cell"].is_unique
    assert (frame["status"] == "ok").all()
    # Rows of a method whose revision was raised since are of an earlier one, and the results page counts them.
    raised = [key for key, method in METHODS.items() if method.revision > 1]
    assert (is_current(frame) | frame["key"].isin(raised)).all()
    assert set(frame["study_hash"]) == {study.content_hash}
    for row in frame.to_dict("records"):
        cell = known[row["cell"]]
        found = (row["dataset"], row["method"], row["trial"], row["selection"], row["train_fraction"])
        assert found == (cell.dataset, cell.method, cell.trial, cell.rule, cell.train_fraction)
        assert {"python", "onepos", "torch"} <= set(json.loads(row["versions"]))
        assert {"system", "processor", "cores"} <= set(json.loads(row["machine"]))


@pytest.mark.long
def test_a_sample_of_the_rows_comes_out_again(frames, data_folder, monkeypatch):
    monkeypatch.setenv("ONEPOS_DATA", str(data_folder))
    monkeypatch.setenv("ONEPOS_OFFLINE", "1")
    rows = sample(pd.concat(frames.values(), ignore_index=True), 40, most_seconds=5.0)
    repeated = repeat_rows(rows, {name: cells_of(read_study(name)[0]) for name in FILES})
    # Not all data sets may be on this machine.
    assert not [str(one) for one in repeated if not one.holds and "DownloadError" not in str(one.error)]


def test_in_how_many_pairs_smile_is_the_best(means, claims):
    ours, theirs, everywhere = [], 0, 0
    for metric in METRICS:
        sign = 1 if higher_is_better(metric) else -1
        table = sign * means[metric].unstack()[list(PAPERS)]
        ours += [(metric, dataset) for dataset in table.index if table.loc[dataset].idxmax() == "smile"]
        for dataset in load_published()["dataset"].unique():
            printed = {method: sign * published_value(metric, dataset, method)[0] for method in PAPERS}
            is_best = printed["smile"] == max(printed.values())
            everywhere += is_best
            theirs += is_best and dataset in table.index
    assert f"in {everywhere} of 60 pairs of data set and metric" in claims
    assert f"on these nine sets in {theirs} of 45 pairs" in claims
    found = claim(claims, "SMILE is the best in most cases")
    assert f"the best in {len(ours)} of 45, in average precision on corel5k and tmc2007" in found
    assert {dataset for metric, dataset in ours if metric == "average_precision"} == {"corel5k", "tmc2007"}


def test_average_ranks(means, claims):
    table = means["average_precision"].unstack().drop(columns=list(FULL))
    assert set(table.index[table.idxmax(axis=1) == "smile"]) == {"corel5k"}
    ranks = table.rank(axis=1, ascending=False).mean().sort_values()
    assert ranks.index[:3].tolist() == ["capped", "an", "smile"]
    found = claim(claims, "SMILE is the best in most cases")
    assert f"average rank there is {ranks['smile']:.1f} of {table.shape[1]}" in found
    assert f"behind `capped` ({ranks['capped']:.1f}) and `an` ({ranks['an']:.1f})" in found
    # Its place by the number of labels.
    places = table.rank(axis=1, ascending=False)["smile"].astype(int)
    found = claim(claims, "The advantage does not depend")
    assert f"place {places['image']} of 13 on image" in found
    assert f"place {places['corel5k']} on corel5k" in found
    behind = table.loc["delicious", "capped"] - table.loc["delicious", "smile"]
    assert f"place {places['delicious']} on delicious (983), {three(behind)} behind `capped`" in found


def test_wins_ties_and_losses(frames, claims):
    """The paper's Table 3: seven rivals, five metrics, before and after Holm's correction over all twelve rivals."""
    made = significance(frames["smile-paper"], expected_trials=5)
    verdicts = made.data[made.data["rival"].isin(PAPERS[1:])]
    plain, holm = Counter(verdicts["outcome"]), Counter(verdicts["holm_outcome"])
    found = claim(claims, "SMILE wins against its seven rivals")
    assert f"{plain['win']} wins, {plain['tie']} ties and {plain['loss']} losses." in found
    assert f"After Holm's correction {holm['win']} wins" in found
    assert holm["loss"] == 0
    wins = Counter(verdicts.loc[verdicts["outcome"] == "win", "rival"])
    assert {rival for rival, _ in wins.most_common(3)} == {"an-ls", "glocal", "mlml"}
    assert wins["an"] == 0


def test_smile_beside_plain_networks_and_role(means, claims):
    table = means["average_precision"].unstack()
    found = claim(claims, "AN and WAN are behind")
    assert f"`an` is {between(table['smile'] - table['an'])} in average precision" in found
    assert f"`wan` {between(table['smile'] - table['wan'])}." in found
    found, ahead = claim(claims, "ROLE is far behind"), table["smile"] - table["role"]
    assert f"by {three(ahead[list(SPARSE)].min())} to {three(ahead[list(SPARSE)].max())} on the five" in found
    assert f"Within {three(ahead[['CAL500', 'scene', 'yeast']].abs().max())} of it on CAL500, scene and yeast" in found
    assert f"and {three(-ahead['image'])} ahead on image" in found


def test_classical_methods_with_many_labels(means, claims):
    table = means["average_precision"].unstack()
    methods = ["glocal", "mlml", "d2ml"]
    ours = [three(table.loc["delicious", method]) for method in methods]
    theirs = [three(published_value("average_precision", "delicious", method)[0]) for method in methods]
    found = claim(claims, "GLOCAL, MLML and D2ML break down")
    assert (
        f"they have {ours[0]}, {ours[1]} and {ours[2]}, in the paper {', '.join(theirs[:2])} and {theirs[2]}" in found
    )
    best = table[list(PAPERS)].idxmax(axis=1)
    assert best[["image", "scene", "yeast"]].tolist() == ["d2ml", "d2ml", "mlml"]


def test_hamming_loss(means, claims):
    table = means["hamming_loss"].unstack()
    eight = table[list(PAPERS)]
    assert set(eight.index[eight.idxmin(axis=1) == "smile"]) == {"CAL500", "yeast", "tmc2007", "corel16k-s1"}
    ranks = eight.rank(axis=1).mean()
    assert ranks.idxmin() == "smile"
    assert f"the best average rank ({ranks['smile']:.1f})" in claim(claims, "SMILE has the lowest Hamming loss")
    assert (table.loc[["image", "scene"], "smile"] > table.loc[["image", "scene"], "an"]).all()


def test_what_label_enhancement_is_worth(frames, page, claims):
    made = significance(frames["ablation"], rivals=("smile-si",), expected_trials=5)
    tests = made.data.set_index("metric")
    assert set(tests.index[tests["outcome"] == "win"]) == {"one_error", "hamming_loss"}
    table = frames["ablation"].groupby(["dataset", "method"])["average_precision"].mean().unstack()
    gain = table["smile"] - table["smile-si"]
    found = claim(claims, "Label enhancement makes the difference")
    assert f"on {(gain > 0).sum()} of 9 sets, by up to {three(gain.max())} (delicious)" in found
    assert gain.idxmax() == "delicious"
    assert set(gain.index[gain < 0]) == {"CAL500", "image", "yeast"}
    assert f"by {three(-gain.min())} at most on CAL500, image and yeast" in found
    assert f"one-error (p = {three(tests['p_value']['one_error'])})" in found
    assert f"Hamming loss ({three(tests['p_value']['hamming_loss'])})" in found
    sparse = gain[list(SPARSE)]
    assert f"gains {three(sparse.min())} to {three(sparse.max())} of average precision on the five sets" in page
    assert f"(`smile-si`) is {three(gain[list(DENSE)].abs().max())} at most, in either direction" in page


def test_what_single_labels_cost_by_number_of_rows(frames, claims):
    rows = frames["sufficiency"].query("dataset == 'tmc2007'")
    table = rows.groupby(["train_fraction", "method"])["average_precision"].mean().unstack()
    less = table[["smile", "an"]].rsub(table["bce"], axis=0)
    found = claim(claims, "Single labels cost a tolerable drop")
    assert three(less.loc[1.0, "smile"]) == three(less.loc[1.0, "an"])
    assert f"SMILE and `an` have {three(less.loc[1.0, 'an'])} less average precision than `bce`" in found
    between_them = less.loc[0.05:0.7, "smile"]
    assert f"SMILE has {three(between_them.min())} to {three(between_them.max())} less" in found
    assert f"With 2 % it has {three(less.loc[0.02, 'smile'])} less, and `an` {three(less.loc[0.02, 'an'])}." in found


def test_the_same_number_of_labels(page):
    gain = {}
    for dataset, (few, many) in label_blocks.equal_labels(load_sources(ROOT)["sufficiency"]).items():
        gain[dataset] = max(many.values()) - max(few.values())
    better = {dataset: value for dataset, value in gain.items() if value > 0.005}
    assert set(better) == {"delicious", "netflix", "corel5k"}
    assert f"by {three(min(better.values()))} to {three(max(better.values()))} of average precision" in page
    level = max(abs(value) for dataset, value in gain.items() if dataset not in better)
    assert f"the two are level ({three(level)} at most)" in page


def test_epochs_on_scene(frames, claims):
    rows = frames["ablation"].query("dataset == 'scene'")
    curves = {key: [json.loads(text)["test"] for text in group["curve"]] for key, group in rows.groupby("method")}
    n = min(len(curve) for found in curves.values() for curve in found)
    smile, without = (np.array([curve[:n] for curve in curves[key]]) for key in ("smile", "smile-si"))
    found = claim(claims, "SMILE is above SMILE-SI in every epoch")
    assert f"In the {n} epochs" in found
    assert f"the difference is {between(smile.mean(axis=0) - without.mean(axis=0))}" in found
    spread = np.concatenate([smile.std(axis=0, ddof=1), without.std(axis=0, ddof=1)])
    assert f"over trials is {three(spread.min())} to {three(spread.max())}" in found


def test_soft_labels(frames, claims):
    rows = frames["smile-paper"].query("selection == 'clean' and method == 'smile'")
    extra = {name: [json.loads(text) for text in found] for name, found in rows.groupby("dataset")["extra"]}
    n = min(len(one["soft_label_change"]) for one in extra["delicious"])  # trials stop at different epochs
    change = np.mean([one["soft_label_change"][:n] for one in extra["delicious"]], axis=0)
    found = claim(claims, "The soft labels D converge")
    assert f"falls from {three(change[0])} to {three(change[-1])} in {len(change)} epochs" in found
    assert abs(change[-1] - change[-10]) < 0.001
    ratio = {}
    for name, several in extra.items():
        bins = [one["calibration"] for one in several]
        believed, present = (
            sum(count * (share or 0) for one in bins for count, share in zip(one["count"], one[key], strict=True))
            for key in ("confidence", "frequency")
        )
        ratio[name] = believed / present
    assert max(ratio, key=ratio.get) == "scene"
    assert {name for name, value in ratio.items() if round(value, 1) == round(min(ratio.values()), 1)} == {
        "CAL500",
        "delicious",
    }
    found = claim(claims, "The risk estimator is unbiased")
    assert f"between {min(ratio.values()):.1f} (CAL500, delicious) and {ratio['scene']:.1f} times (scene)" in found


def test_smile_beside_the_papers_values(frames, page):
    rows = frames["smile-paper"].query("selection == 'clean' and method == 'smile'")
    errors = {}
    for name, own in rows.groupby("dataset")["average_precision"]:
        mean, std = published_value("average_precision", name, "smile")
        errors[name] = (own.mean() - mean) / np.hypot(own.std(), std) * np.sqrt(5), own.mean() - mean
    assert {name for name, (_, gain) in errors.items() if gain >= 0} == {"CAL500", "image", "scene", "tmc2007"}
    near = {name for name, (error, _) in errors.items() if -1 < error < 0}
    assert near == {"yeast", "corel5k", "rcv1-s1", "corel16k-s1"}
    error, gain = errors["delicious"]
    assert f"On delicious it is {three(-gain)} below ({-error:.1f} standard errors)" in page
    assert rows.query("dataset == 'delicious'")["best_epoch"].between(26, 59).all()  # neither cut off at 25 nor at 60
    rows = frames["smile-paper"].query("selection == 'clean'")
    found = rows.groupby(["dataset", "method"])[["average_precision", "validation"]].mean().unstack()
    ahead = {
        column: set(found.index[found[column, "smile"] > found[column, "an"]])
        for column in ("average_precision", "validation")
    }
    assert ahead["average_precision"] == {"corel5k", "rcv1-s1", "tmc2007"}
    assert f"it is ahead on {len(ahead['validation'])} of 9" in page


def test_what_ties_under_single_positive_selection(frames, claims):
    made = significance(frames["smile-paper"], expected_trials=5, selection="single-positive")
    tied = (made.data["metric"] == "average_precision") & (made.data["outcome"] == "tie")
    ties = set(made.data.loc[tied, "rival"])
    assert ties == {"softmax", "capped", "an", "wan", "logistic", "forest", "mlml", "d2ml"}
    for rival in ties:
        assert f"`{rival}`" in claims.partition("If single positives choose")[2].partition("**")[0]


def test_the_real_table(frames, page):
    means = frames["tables"].groupby("method")["average_precision"].mean()
    single = means.drop(list(FULL)).sort_values(ascending=False)
    assert single.index[:2].tolist() == ["smile", "logistic"]
    assert f"SMILE is the best single method, {three(single.iloc[0] - single.iloc[1])} ahead of `logistic`" in page


@pytest.fixture(scope="module")
def best():
    """Mean average precision by data set: full supervision, single methods and auto, best of each over all studies."""
    found = {}
    for dataset, values in best_blocks.means(load_sources(ROOT)).items():
        single = {method: value for method, value in values.items() if method not in (*FULL, "auto")}
        full = max(value for method, value in values.items() if method in FULL)
        found[dataset] = {"full": full, "single": max(single.values()), "auto": values["auto"]}
        found[dataset]["smile"] = values["smile"]
    return pd.DataFrame(found).T


def test_what_one_label_keeps(best, page, claims):
    found = claim(claims, "One positive label is sufficient")
    nine = best.drop(index="netflix")
    kept = (nine["single"] / nine["full"] * 100).round().astype(int)
    high = ["image", "scene", "yeast", "tmc2007", "rcv1-s1"]
    assert set(kept.index[kept >= 97]) == set(high)
    for name in ("corel16k-s1", "corel5k", "CAL500", "delicious"):
        assert f"{kept[name]} % on {name}" in found
    own = (nine["smile"] / nine["full"] * 100).round().astype(int)
    assert (own.idxmax(), own.idxmin()) == ("scene", "delicious")
    assert f"SMILE itself keeps {own.max()} % (scene) to {own.min()} % (delicious)" in found
    assert "On five of nine sets, the best single method keeps 97 % or more" in page
    assert f"it keeps {kept['delicious']} to {kept['CAL500']} %" in page


def test_auto_beside_the_best_single_method(best, page):
    ahead = best["auto"] - best["single"]
    assert abs(ahead["CAL500"]) < 0.005
    assert (ahead.drop("CAL500") > 0).all()
    assert (
        "level with the best single method on CAL500 and ahead of it on the other eight sets and on a real table"
        in page
    )


def test_what_more_time_gives(frames, page):
    sources = load_sources(ROOT)
    others = best_blocks.means(sources, sources["auto-300"].study.trials)
    table = frames["auto-300"].groupby("dataset")["average_precision"].mean().to_frame("auto-300")
    table["single"] = [best_blocks.best(others[dataset])[1] for dataset in table.index]
    table["auto"] = [others[dataset]["auto"] for dataset in table.index]
    ahead = table["auto-300"] - table["single"]
    assert set(ahead.index[ahead <= 0]) == {"CAL500"}
    assert f"on {(ahead > 0).sum()} of the 10 sets, and {three(-ahead['CAL500'])} behind it on CAL500" in page
    assert f"It gains {three((table['auto-300'] - table['auto']).max())} at most over 60 seconds" in page
    longest = frames["auto-300"].groupby("dataset")["seconds"].max()
    assert set(longest.index[longest > 275]) == {"tmc2007"}
    assert "On all sets but tmc2007 the search ends before the time is up" in page


def test_newer_methods(frames, page):
    newer = frames["modern"]["method"].unique()
    rows = pd.concat([frames["smile-paper"].query("selection == 'clean'"), frames["modern"]])
    table = rows[~rows["method"].isin(FULL)].pivot_table(index="dataset", columns="method", values="average_precision")
    ranks = table.rank(axis=1, ascending=False).mean()
    found = page.partition(" ## Newer methods ")[2].partition(" ## ")[0]
    assert f"Among the {len(ranks)} methods of both studies" in found
    assert ranks[newer].idxmin() == "epr"
    assert f"of the four by average precision ({ranks['epr']:.1f})" in found
    assert set(ranks.index[ranks < ranks["epr"]]) == {"capped", "an"}
    assert ranks["epr"] < ranks["smile"]
    assert f"behind `capped` ({ranks['capped']:.1f}) and `an` ({ranks['an']:.1f})" in found
    assert f"ahead of `smile` ({ranks['smile']:.1f}). `hill` has {ranks['hill']:.1f}" in found
    assert f"`ll-r` {ranks['ll-r']:.1f} and `splc` {ranks['splc']:.1f}" in found
    ahead = table[newer].max(axis=1) - table.drop(columns=newer).max(axis=1)
    assert f"one of the four more than {three(ahead.max())} ahead" in found


def test_what_helps_smile(frames, page):
    values = frames["enhancement"].pivot_table(index=["dataset", "trial"], columns="method", values="average_precision")
    gains = values.sub(values["smile"], axis=0).groupby("dataset")
    mean, ahead = gains.mean(), gains.agg(lambda gain: (gain > 0).sum())
    gain = mean["smile-pretrained"].map(three)
    assert f"gain {gain['corel5k']} on corel5k (in all five trials), {gain['rcv1-s1']} on rcv1-s1 and" in page
    assert f"{gain['yeast']} on yeast (in three each)" in page
    assert ahead["smile-pretrained"].to_dict() == {"corel5k": 5, "rcv1-s1": 3, "yeast": 3}
    others = mean[["smile-warm-up-3", "smile-weight", "smile-weight-3"]].abs().to_numpy().max()
    assert f"change the mean by {three(others)} at most" in page


def test_what_biased_tagging_costs(frames, page):
    rows = frames["bias"].query("method not in ('bce', 'frequency')")
    rows = rows.assign(rule=rows["dataset"].str.partition(":")[2])
    means = rows.groupby(["method", "rule"])["average_precision"].mean().unstack()  # all sets have three trials
    cost = means["uniform"] - means["frequency"]
    assert f"{three(cost.min())} (`{cost.idxmin()}`) to {three(cost.max())} (`{cost.idxmax()}`)" in page
    assert f"`{means['frequency'].idxmax()}` is the best one there" in page
    assert f"by dominance costs {three((means['uniform'] - means['dominance']).max())} at most" in page

"""The benchmarks' own parts: fair turns, medians, verdicts, and a baseline that computes the same as what it is for."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils._testing import assert_allclose

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # they are scripts side by side, not a package

import full_graph  # noqa: E402
import harness  # noqa: E402
import machine  # noqa: E402
import render  # noqa: E402
import run  # noqa: E402
import work  # noqa: E402

from onepos.datasets import make_known_posterior  # noqa: E402
from onepos.graph.neighbors import nearest_neighbors  # noqa: E402
from onepos.methods.smile.encoder import GraphEncoder, smile_graph  # noqa: E402
from onepos.training.objective import as_features  # noqa: E402


def test_competitors_take_turns_and_turn_around():
    calls = []

    def competitor(name, value):
        def call():
            calls.append(name)
            return value

        return call

    numbers = harness.alternate({name: competitor(name, i) for i, name in enumerate("abc")}, 3)
    assert "".join(calls) == "abccbaabc"
    assert numbers == {"a": [0.0] * 3, "b": [1.0] * 3, "c": [2.0] * 3}


def test_ratio_is_the_median_of_paired_ratios_not_the_ratio_of_medians():
    # A machine that slows down fourfold in the middle: the pairs do not notice.
    above, below = [2.0, 8.0, 30.0], [1.0, 4.0, 10.0]
    assert harness.ratio(above, below) == {"value": 2.0, "low": 2.0, "high": 3.0}
    with pytest.raises(ValueError, match="shorter"):
        harness.ratio(above, below[:2])


def test_exponent_of_a_power_law():
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    assert harness.exponent(sizes, 3.0 * sizes**1.7) == pytest.approx(1.7)


@pytest.mark.parametrize(
    ("value", "target", "met"),
    [(2.0, ">= 2", True), (1.99, ">= 2", False), (5.0, "<= 5", True), (5.1, "<= 5", False), (2.0, "< 2", False)],
)
def test_verdicts(value, target, met):
    record = harness.record("set", "a / b", harness.spread([value]), target=target)
    assert harness.is_met(value, target) is met
    assert render.verdict(record) == ("met" if met else "**not met**")
    assert render.verdict(harness.record("set", "a / b", harness.spread([value]))) == "–"


def test_page_counts_targets_and_says_what_is_left_out():
    raw = {"ours": [1.0, 1.0], "theirs": [3.0, 5.0]}
    records = [
        harness.record("good", "theirs / ours", harness.ratio(raw["theirs"], raw["ours"]), target=">= 2", raw=raw),
        harness.record("bad", "peak", harness.spread([1.5]), unit="GB", target="<= 1.2", note="a remark"),
        harness.record("free", "share", harness.spread([40.0]), unit="%"),
        harness.left_out("absent"),
    ]
    section = {"records": records, "machine": machine.describe(), "load": 0.1}
    page = render.render({"sections": {"one": section}}, {"one": ("First", "About."), "two": ("Second", "")})
    assert "**1 of 2 targets met.**" in page
    assert "| good | theirs / ours | 4× | 3–5 | 2 | ≥ 2 | met | ours 1, theirs 4 |" in page
    assert "| bad | peak | 1.5 GB |  |  | ≤ 1.2 | **not met** |  |" in page
    assert "| free | share | 40% |  |  | – | – |  |" in page
    assert "| absent | left out: not in the data folder |" in page
    assert "- bad: a remark" in page
    assert "- First, bad, peak: 1.5 GB, target <= 1.2" in page
    assert "Second" not in page


def test_a_rerun_replaces_its_own_records_and_keeps_the_others():
    def lines(value, *cases):
        return [harness.record(case, "m", harness.spread([value])) for case in cases]

    old = [*lines(1.0, "a", "b"), harness.left_out("c")]
    merged = run.merge(old, lines(2.0, "b", "c", "d"))
    assert [(record["case"], record.get("value")) for record in merged] == [("a", 1), ("b", 2), ("c", 2), ("d", 2)]


def test_every_section_has_a_file_and_the_long_one_must_be_asked_for():
    assert {path.stem for path in BENCHMARKS.glob("bench_*.py")} == {f"bench_{name}" for name in run.SECTIONS}
    assert run.selected("all") == list(run.SECTIONS)
    assert "million" not in run.selected(None)
    assert run.selected("memory,encoder") == ["encoder", "memory"]
    with pytest.raises(SystemExit, match="no section speed"):
        run.selected("speed")


def test_machine_is_described_without_its_name():
    import platform

    text = json.dumps(machine.describe())
    assert "torch" in text
    assert platform.node() not in text


def test_counted_work_is_that_of_the_products():
    # 3 → 4 → 2: forward 24 + 16, weights' gradients the same, the hidden layer's gradient 16.
    assert work.dense([3, 4, 2]) == 24 + 16 + 24 + 16 + 16
    assert work.dense([3, 4, 2], input_gradient=True) == 3 * (24 + 16)
    assert work.assume_negative(10, 3, 2, 4) == 960


@pytest.mark.parametrize("sparse_inputs", [False, True])
@pytest.mark.parametrize("zeros", [0.0, 0.95], ids=["dense", "mostly zeros"])
def test_whole_graph_and_neighbourhood_encoder_agree(zeros, sparse_inputs):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 9)).astype(np.float32) * (rng.random((60, 9)) >= zeros)
    neighbors, _ = nearest_neighbors(X, 4)
    inputs = as_features(0.5 * X + 0.5 * X[neighbors].mean(axis=1))
    ours = GraphEncoder(inputs, smile_graph(neighbors), 5, torch.Generator().manual_seed(0))
    whole = full_graph.FullGraphEncoder(ours, sparse_inputs=sparse_inputs)
    rows = torch.tensor([3, 59, 3, 17, 0])
    direction = torch.from_numpy(rng.standard_normal((5, 10)).astype(np.float32))
    results = []
    for encoder in (ours, whole):
        output = encoder(rows)
        parameters = dict(encoder.named_parameters())
        gradients = torch.autograd.grad((output * direction).sum(), list(parameters.values()))
        results.append((output.detach(), dict(zip(parameters, gradients, strict=True))))
    (output, gradients), (expected, expected_gradients) = results
    assert_allclose(output, expected, atol=1e-5, rtol=0)
    assert set(gradients) == set(expected_gradients)
    for name, gradient in gradients.items():
        assert_allclose(gradient, expected_gradients[name], atol=1e-5, rtol=0, err_msg=name)


def test_both_encoders_train_alike():
    from epochs import first_losses

    from onepos import SMILEClassifier

    data = make_known_posterior(80, 6, 5, random_state=0)
    settings = {"max_epochs": 1, "warm_up_epochs": 0, "early_stopping": False, "random_state": 0}
    ours, whole, lent = (
        first_losses(kind(**settings), data.X, data.observed, 3)
        for kind in (SMILEClassifier, full_graph.FullGraphSMILE, full_graph.LentFullGraphSMILE)
    )
    assert len(ours) == 6
    assert_allclose(ours, whole, rtol=1e-4)
    assert_allclose(ours, lent, rtol=1e-4)

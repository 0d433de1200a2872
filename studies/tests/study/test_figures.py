"""The study's figures: lines are where the results say, and everything can be read in small and without colour."""

import json
import re
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import onepos_studies.study.figures
from onepos.exceptions import MissingDependencyError
from onepos.methods.registry import installed_methods
from onepos.pages.figures import PAPER, VARIABLES, WIDTH, figure_svg
from onepos_studies.study.figures import (
    calibration,
    convergence,
    critical_difference,
    epochs,
    looks,
    save_figure,
    sufficiency,
)
from study_frame import LEVELS, curve, result, results

METHODS = installed_methods()

SIZES = (200, 500, 1000, 2000, 5000, 10_000, 20_000)
PAPERS = (
    "smile",
    "smile-si",
    "smile-code",
    "an",
    "an-ls",
    "wan",
    "role",
    "glocal",
    "mlml",
    "d2ml",
    "softmax",
    "forest",
    "frequency",
)
RANKS = dict(zip(PAPERS, (1.8, 3.2, 4.0, 7.7, 6.5, 5.9, 2.9, 9.4, 8.8, 10.2, 7.1, 9.9, 12.6), strict=True))


def sizes(methods=("smile", "role", "bce"), trials=3):
    random = np.random.default_rng(0)
    return pd.DataFrame(
        [
            result(
                "tmc2007", method, trial, n_train=size, level=LEVELS[method] - 5 / size**0.5 + random.normal(0, 0.01)
            )
            for method in methods
            for trial in range(trials)
            for size in SIZES
        ]
    )


def every_method():
    """All methods of the registry on one data set, most of them with epochs."""
    return pd.DataFrame(
        [
            result("scene", method, trial, level=0.9 - 0.02 * place, curve=json.dumps(curve(0.9 - 0.02 * place, 60)))
            for place, method in enumerate(METHODS)
            for trial in range(2)
        ]
    )


@pytest.fixture(scope="module")
def small():
    return results(datasets=("scene",), selections=("clean",))


@pytest.fixture(scope="module")
def drawn(small):
    """Every kind of figure, each with as much on it as it will have to hold."""
    return {
        "sufficiency": sufficiency(sizes()),
        "sufficiency, linear axis": sufficiency(sizes().query("n_train >= 2000")),
        "epochs": epochs(every_method()),
        "convergence": convergence(small),
        "calibration": calibration(small),
        "ranks": critical_difference(RANKS, 5.27),
        "few ranks": critical_difference({"smile": 1.4, "role": 1.6, "an": 3.0}, 2.9),
    }


def lines(figure, panel=0):
    """The drawn lines by the name that the legend gives them."""
    legend = figure.legends[0]
    names = [text.get_text() for text in legend.get_texts()]
    found = [line for line in figure.axes[panel].lines if line.get_marker() != "None"]
    by_marker = {line.get_marker(): line for line in found}
    return {name: by_marker[handle.get_marker()] for name, handle in zip(names, legend.legend_handles, strict=True)}


def bands(figure):
    """Lower and upper edge of each band, in the order of drawing."""
    edges = []
    for band in figure.axes[0].collections:
        points = band.get_paths()[0].vertices
        places = np.unique(points[:, 0])
        edges.append(
            (
                [points[points[:, 0] == x, 1].min() for x in places],
                [points[points[:, 0] == x, 1].max() for x in places],
            )
        )
    return edges


def test_sufficiency_shows_mean_and_standard_deviation_by_size():
    frame = sizes()
    figure = sufficiency(frame.sample(frac=1, random_state=0))
    groups = frame.groupby(["method", "n_train"])["average_precision"]
    mean, spread = groups.mean(), groups.std()
    assert list(lines(figure)) == ["SMILE", "ROLE", "Full supervision"]
    for name, key in (("SMILE", "smile"), ("ROLE", "role"), ("Full supervision", "bce")):
        x, y = lines(figure)[name].get_data()
        assert x.tolist() == list(SIZES)
        np.testing.assert_allclose(y, mean[key])
    for key, (low, high) in zip(("smile", "role", "bce"), bands(figure), strict=True):
        np.testing.assert_allclose(low, mean[key] - spread[key])
        np.testing.assert_allclose(high, mean[key] + spread[key])
    assert figure.axes[0].get_xlabel() == "number of training examples"
    assert figure.axes[0].get_ylabel() == "test average precision\n(higher is better)"


def test_one_trial_has_no_band():
    assert bands(sufficiency(sizes(trials=1))) == []


def test_an_open_choice_is_refused():
    frame = results()
    with pytest.raises(ValueError, match="one dataset; got CAL500, scene, yeast: give those of one"):
        epochs(frame)
    with pytest.raises(ValueError, match="one selection; got clean, single-positive"):
        epochs(frame[frame["dataset"] == "scene"])
    with pytest.raises(ValueError, match="no finished cell to draw"):
        sufficiency(frame.assign(status="failed"))


def test_epochs_are_those_of_the_test_rows_until_the_shortest_trial_ends(small):
    figure = epochs(small[small["method"].isin(["smile", "forest"])])
    (name,) = lines(figure)
    assert name == "SMILE"
    x, y = lines(figure)["SMILE"].get_data()
    # Trials of the made-up study run 10, 11 and 12 epochs; their levels rise by 0.01.
    assert x.tolist() == list(range(1, 11))
    expected = np.mean([curve(0.80 + 0.01 * trial, 10)["test"] for trial in range(3)], axis=0)
    np.testing.assert_allclose(y, expected)
    assert figure.axes[0].get_ylabel() == "test average precision\n(higher is better)"


def test_epochs_fall_back_to_validation_for_all_if_one_cell_has_no_test_values(small):
    frame = small.copy()
    row = frame.index[frame["method"] == "role"][0]
    frame.loc[row, "curve"] = json.dumps({key: value for key, value in curve(0.7, 12).items() if key != "test"})
    figure = epochs(frame)
    assert figure.axes[0].get_ylabel() == "validation average precision\n(higher is better)"
    expected = np.mean([curve(0.80 + 0.01 * trial, 10)["validation"] for trial in range(3)], axis=0)
    np.testing.assert_allclose(lines(figure)["SMILE"].get_ydata(), expected)


def test_many_lines_have_no_bands_and_a_value_that_is_not_finite_is_left_out():
    figure = epochs(every_method())
    assert len(lines(figure)) == len(METHODS)
    assert bands(figure) == []
    odd = result(curve='{"epoch": [1, 2, 3], "validation": [0.5, null, 0.7]}')
    assert lines(epochs(pd.DataFrame([odd])))["SMILE"].get_xdata().tolist() == [1, 3]


def test_convergence_shows_the_change_of_the_soft_labels(small):
    figure = convergence(small)
    assert list(lines(figure)) == ["SMILE", "ROLE"]
    x, y = lines(figure)["ROLE"].get_data()
    # The shortest trial has ten epochs; its first change is that from epoch 1 to epoch 2.
    assert x.tolist() == list(range(2, 11))
    np.testing.assert_allclose(y, 0.1 * (LEVELS["role"] + 0.01) * np.exp(-np.arange(9) / 2.5))
    assert figure.axes[0].get_yscale() == "log"
    assert "lower is steadier, log scale" in figure.axes[0].get_ylabel()
    steady = convergence(pd.DataFrame([result(extra='{"soft_label_change": [0.2, 0.1, 0.0]}')]))
    assert steady.axes[0].get_yscale() == "linear"
    assert steady.axes[0].get_ylim()[0] == 0


def test_calibration_pools_the_labels_of_all_trials():
    trials = [
        {"confidence": [0.01, 0.95, 1.0], "frequency": [0.0, 0.8, 1.0], "count": [30, 10, 10]},
        {"confidence": [0.09, None, 0.42], "frequency": [0.4, None, 0.5], "count": [10, 0, 5]},
    ]
    frame = pd.DataFrame(
        [result(trial=trial, extra=json.dumps({"calibration": bins})) for trial, bins in enumerate(trials)]
    )
    figure = calibration(frame)
    confidence, frequency = lines(figure)["SMILE"].get_data()
    # By hand: (30 · 0.01 + 10 · 0.09) / 40 and (30 · 0 + 10 · 0.4) / 40; 0.95 and 1 share the last bin.
    np.testing.assert_allclose(confidence, [0.03, 0.42, 0.975])
    np.testing.assert_allclose(frequency, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(lines(figure, panel=1)["SMILE"].get_ydata(), [40, 5, 20])


@pytest.mark.parametrize("draw", [epochs, convergence, calibration])
def test_what_was_not_recorded_is_said(draw, small):
    with pytest.raises(ValueError, match="no cell recorded"):
        draw(small[small["method"] == "frequency"])


def test_ranks_and_bars_are_to_scale():
    figure = critical_difference({"smile": 1.5, "role": 2.25, "an": 3.75}, 1.1)
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["AN 3.75", "ROLE 2.25", "SMILE 1.50"]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [3.75, 2.25, 1.5])
    bars = axes.collections[0].get_segments()
    np.testing.assert_allclose([bar[:, 0] for bar in bars], [[3.2, 4.3], [1.7, 2.8], [0.95, 2.05]])
    assert "critical difference 1.10" in axes.get_xlabel()


@pytest.mark.parametrize(("ranks", "difference"), [({"smile": 1.0}, 1.0), ({"smile": 1.0, "an": 2.0}, 0.0)])
def test_ranks_that_make_no_diagram_are_refused(ranks, difference):
    with pytest.raises(ValueError, match="two methods and a critical difference above 0"):
        critical_difference(ranks, difference)


def visible_texts(figure):
    FigureCanvasAgg(figure).draw()
    found = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        found += axes.texts
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            low, high = sorted(axis.get_view_interval())
            # Ticks beyond the limits exist but are not drawn.
            found += [axis.label, *(tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def test_text_is_large_enough_inside_the_figure_and_apart(drawn):
    for name, figure in drawn.items():
        assert figure.get_size_inches()[0] == WIDTH == 3.3
        boxes = []
        for text in visible_texts(figure):
            assert text.get_fontsize() >= 7, (name, text.get_text())
            # A power of ten would set its exponent smaller.
            assert "mathdefault" not in text.get_text(), (name, text.get_text())
            boxes.append((text.get_text(), text.get_window_extent().padded(-0.5)))
        for text, box in boxes:
            assert box.x0 >= -1, (name, text)
            assert box.x1 <= figure.bbox.x1 + 1, (name, text)
            assert box.y0 >= -1, (name, text)
            assert box.y1 <= figure.bbox.y1 + 1, (name, text)
        for (first, one), (second, other) in combinations(boxes, 2):
            assert not one.overlaps(other), (name, first, second)


def test_every_two_lines_differ_without_colour():
    style = looks([*METHODS, "mine", "yours"])
    markers = {(look["marker"], look["markerfacecolor"] == PAPER) for look in style.values()}
    assert len(markers) == len(METHODS) + 2
    # A method looks the same whatever stands beside it.
    assert looks(["role"])["role"] == style["role"]


def test_every_line_stands_out_from_the_paper():
    def luminance(colour):
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return np.dot(linear, (0.2126, 0.7152, 0.0722))

    for look in looks([*METHODS, "mine"]).values():
        assert (luminance(PAPER) + 0.05) / (luminance(look["color"]) + 0.05) >= 3


def test_every_colour_of_a_figure_can_follow_the_page(drawn, tmp_path):
    for name, figure in drawn.items():
        svg = save_figure(figure, tmp_path / name)[0].read_text(encoding="utf-8")
        assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) <= set(VARIABLES), name


def test_saving_writes_both_files_and_the_same_bytes_again(small, tmp_path):
    from PIL import Image

    # A dot in the name is no suffix.
    svg, png = save_figure(convergence(small), tmp_path / "figure.3")
    assert [path.name for path in (svg, png)] == ["figure.3.svg", "figure.3.png"]
    with Image.open(png) as image:
        assert image.size[0] == 990
    assert "mean change of a soft label" in svg.read_text(encoding="utf-8")
    before = svg.read_bytes(), png.read_bytes()
    save_figure(convergence(small), str(tmp_path / "figure.3"))
    assert (svg.read_bytes(), png.read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.3.png", "figure.3.svg"]


def test_a_figure_drawn_again_is_the_same_text():
    """Numbers of which matplotlib's layout moves when it is computed a second time."""
    levels = {method: 0.86 + 0.004 * place for place, method in enumerate(PAPERS[:8])}
    frame = pd.DataFrame(
        [result("scene", method, level=level, curve=json.dumps(curve(level, 14))) for method, level in levels.items()]
    )
    figure = epochs(frame)
    first = figure_svg(figure)
    assert figure_svg(figure) == first
    assert figure_svg(epochs(frame)) == first


def test_a_name_is_shown_as_it_stands():
    frame = pd.DataFrame([result(method="cost $1$ & <b>", level=0.5, trial=trial) for trial in range(2)])
    figure = epochs(frame)
    assert figure.legends[0].get_texts()[0].get_text() == r"cost \$1\$ & <b>"
    assert "cost $1$ &amp; &lt;b&gt;" in figure_svg(figure)


def test_no_global_state_is_touched():
    for path in Path(onepos_studies.study.figures.__file__).parent.glob("*.py"):
        assert "import pyplot" not in path.read_text(encoding="utf-8")
        assert "matplotlib.pyplot" not in path.read_text(encoding="utf-8")


def test_a_missing_matplotlib_is_named(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r'drawing figures needs matplotlib.*pip install "onepos\[plot\]"'):
        convergence(small)

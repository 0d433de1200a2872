"""Digit scenes, the known posterior, and the split."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from scipy.stats import chisquare, norm
from sklearn.datasets import load_digits

from onepos.datasets import make_digit_scenes, make_known_posterior, split, split_indices
from onepos.datasets._generators import _draw_nonempty, scan_indices

# --- digit scenes ---------------------------------------------------------------------------------


def test_every_digit_of_a_scene_is_a_scan_and_nothing_else_is_there():
    data = make_digit_scenes(12, noise=0.0, random_state=0)
    digits = load_digits()
    scans = (digits.images / 16).astype(np.float32)
    for image, labels in zip(data.images, data.Y, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(image, (8, 8))
        ink = 0.0
        for digit in np.flatnonzero(labels):
            candidates = scans[digits.target == digit]
            # A scan may also match elsewhere by chance, hardly; its ink is counted once.
            matches = [scan for scan in candidates if (windows == scan).all(axis=(2, 3)).any()]
            assert matches, "a labelled digit must be in the picture, whole"
            ink += matches[0].sum()
        assert image.sum() == pytest.approx(ink, rel=1e-5)


def test_scene_shapes_and_ranges():
    data = make_digit_scenes(500, min_digits=2, max_digits=3, random_state=1)
    assert data.X.shape == (500, 400)
    assert data.images.shape == (500, 20, 20)
    assert np.shares_memory(data.X, data.images)
    assert (data.X.dtype, data.Y.dtype) == (np.float32, np.uint8)
    assert 0.0 <= data.X.min() <= data.X.max() <= 1.0
    assert set(data.Y.sum(axis=1)) == {2, 3}
    assert data.label_names == list("0123456789")
    assert data.feature_names[21] == "pixel_1_1"
    wide = make_digit_scenes(5, grid=(2, 3), max_digits=6, random_state=0)
    assert wide.images.shape == (5, 20, 30)


def test_digits_and_counts_are_uniform():
    Y = make_digit_scenes(5000, random_state=2).Y
    assert chisquare(Y.sum(axis=0)).pvalue > 0.001
    assert chisquare(np.bincount(Y.sum(axis=1))[1:]).pvalue > 0.001


def test_training_and_test_scans_are_disjoint():
    for train, test, everything in zip(*(scan_indices(part) for part in ("train", "test", "all")), strict=True):
        assert not set(train) & set(test)
        assert set(train) | set(test) == set(everything)
        assert len(train) > len(test) > 0
    scans = (load_digits().images / 16).astype(np.float32)
    allowed = {scans[i].tobytes() for part in scan_indices("test") for i in part}
    data = make_digit_scenes(50, max_digits=1, grid=(1, 1), noise=0, scans="test", random_state=0)
    windows = np.lib.stride_tricks.sliding_window_view(data.images, (8, 8), axis=(1, 2)).reshape(50, -1, 64)
    assert all(any(window.tobytes() in allowed for window in image) for image in windows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"max_digits": 11}, "max_digits <= 10"),
        ({"min_digits": 3, "max_digits": 2}, "min_digits"),
        ({"max_digits": 5}, "at least 5 cells"),
        ({"noise": -1}, "noise"),
        ({"scans": "val"}, "'train' or 'test'"),
    ],
)
def test_bad_scene_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        make_digit_scenes(**{"n_samples": 5, **options})


# --- known posterior ------------------------------------------------------------------------------


def test_posterior_is_calibrated():
    data = make_known_posterior(20_000, 5, 6, n_positives=1.7, random_state=0)
    assert data.posterior.sum(axis=1).mean() == pytest.approx(1.7, abs=1e-6)
    assert data.Y.any(axis=1).all()
    np.testing.assert_allclose(
        data.probabilities, expit(data.X.astype(float) @ data.weights.T + data.intercepts), rtol=1e-12
    )
    # Where the model says p, a share p of the rows has the label: ten bins per label, z-tested together.
    z = []
    for p, y in zip(data.posterior.T, data.Y.T, strict=True):
        for rows in np.array_split(np.argsort(p), 10):
            variance = (p[rows] * (1 - p[rows])).sum()
            z.append((y[rows].sum() - p[rows].sum()) / np.sqrt(variance))
    assert np.abs(z).max() < norm.isf(0.001 / len(z))


def test_conditional_labels_against_rejection():
    p = np.array([0.05, 0.3, 0.1])
    rng = np.random.default_rng(1)
    direct = _draw_nonempty(rng, np.tile(p, (40_000, 1)))
    rejected = rng.random((120_000, 3)) < p
    rejected = rejected[rejected.any(axis=1)]
    patterns = [np.bincount(sample @ [1, 2, 4], minlength=8)[1:] for sample in (direct, rejected)]
    expected = patterns[1] / patterns[1].sum() * patterns[0].sum()
    exact = np.array([np.prod(np.where([k & 1, k & 2, k & 4], p, 1 - p)) for k in range(1, 8)])
    assert chisquare(patterns[0], exact / exact.sum() * patterns[0].sum()).pvalue > 0.001
    np.testing.assert_allclose(patterns[0], expected, rtol=0.2, atol=40)


def test_observed_is_one_true_label():
    data = make_known_posterior(500, 4, 5, n_positives=1.2, random_state=3)
    assert (data.observed <= data.Y).all()
    assert (data.observed.sum(axis=1) == 1).all()
    again = make_known_posterior(500, 4, 5, n_positives=1.2, random_state=3)
    np.testing.assert_array_equal(again.observed, data.observed)


def test_extreme_parameters_stay_finite():
    data = make_known_posterior(200, 3, 4, n_positives=3.99, signal=30, random_state=0)
    assert np.isfinite(data.posterior).all()
    assert data.posterior.max() <= 1.0 + 1e-12
    rare = make_known_posterior(200, 3, 4, n_positives=1.0001, random_state=0)
    assert (rare.Y.sum(axis=1) >= 1).all()


@pytest.mark.parametrize(
    "options",
    [{"n_positives": 1.0}, {"n_positives": 10}, {"signal": np.nan}],
)
def test_bad_posterior_parameters(options):
    with pytest.raises(ValueError, match=r"n_positives|signal"):
        make_known_posterior(**options)


# --- split ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csc_matrix, pd.DataFrame])
def test_split_keeps_rows_together(container):
    X = np.arange(200.0).reshape(100, 2)
    Y = X[:, :1] * 10
    parts = split(container(X), container(Y), random_state=0)
    seen = []
    for part, size in (("train", 80), ("val", 10), ("test", 10)):
        x, y = parts[f"X_{part}"], parts[f"Y_{part}"]
        if sparse.issparse(x):
            x, y = x.toarray(), y.toarray()
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == (size, 2)
        np.testing.assert_array_equal(x[:, 0] * 10, y[:, 0])
        np.testing.assert_array_equal(x, X[parts[f"{part}_indices"]])
        seen.extend(parts[f"{part}_indices"])
    assert sorted(seen) == list(range(100))


def test_split_indices_sizes_and_seeds():
    for n in (10, 502, 2417):
        sizes = [len(part) for part in split_indices(n, random_state=1)]
        assert sum(sizes) == n
        np.testing.assert_allclose(sizes, np.array([0.8, 0.1, 0.1]) * n, atol=1)
    one, two = (np.concatenate(split_indices(50, random_state=5)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert [len(part) for part in split_indices(10, (0.5, 0, 0.5), 0)] == [5, 0, 5]


@pytest.mark.parametrize("fractions", [(0.8, 0.2), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1), (0, 0.5, 0.5)])
def test_bad_fractions(fractions):
    with pytest.raises(ValueError, match="three numbers"):
        split_indices(100, fractions)


def test_split_trouble():
    with pytest.raises(ValueError, match="too few"):
        split_indices(3)
    with pytest.raises(ValueError, match="same number of rows; got 3 and 2"):
        split(np.ones((3, 1)), np.ones((2, 1)))

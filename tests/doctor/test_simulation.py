"""Exclusivity and cardinality against simulations of which the truth is known."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

from onepos.datasets import make_digit_scenes, make_known_posterior, make_single_positive
from onepos.doctor import diagnose, estimate_cardinality
from onepos.doctor.cardinality import guess_tags, single_share
from onepos.doctor.columns import read_columns
from onepos.doctor.labels import read_tags

RNG = np.random.default_rng


def suspected(features, tags):
    return "labels-exclusive" in {finding.code for finding in diagnose(features, tags).findings}


def share_of(features, tags):
    guess = guess_tags(read_columns(features), read_tags(tags, len(features)), ())
    return single_share(guess.right, guess.confidence)


def draw(truth, rng):
    """One label of each row, evenly."""
    return (truth * rng.random(truth.shape)).argmax(axis=1)


def fixed_size(n, size, n_labels, rng):
    """Label sets of one size."""
    return (rng.random((n, n_labels)).argsort(axis=1) < size).astype(int)


@pytest.mark.parametrize("load", [load_iris, load_digits, load_wine])
def test_exclusive_classes_are_suspected(load):
    assert suspected(*load(return_X_y=True))


@pytest.mark.parametrize("seed", range(3))
def test_known_posteriors_are_not_suspected(seed):
    made = make_known_posterior(800, 8, 6, n_positives=2.0, signal=4.0, random_state=seed)
    assert not suspected(made.X, made.observed)


def test_digit_scenes_are_not_suspected():
    scenes = make_digit_scenes(500, random_state=0)
    assert not suspected(scenes.X, make_single_positive(scenes.Y, random_state=0).argmax(axis=1))


@pytest.mark.parametrize(("n_positives", "signal"), [(1.05, 20.0), (1.5, 20.0), (2.0, 4.0), (3.0, 20.0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_share_of_rows_with_one_label_is_bounded_from_below(n_positives, signal, seed):
    made = make_known_posterior(1000, 3, 6, n_positives=n_positives, signal=signal, random_state=seed)
    bound = share_of(made.X, made.observed)
    assert bound <= (made.Y.sum(axis=1) == 1).mean()
    if n_positives == 1.05:
        assert bound > 0.4  # and says something where the features are clear


def test_identical_rows_that_disagree_contradict_the_suspicion():
    rng = RNG(0)
    # Each thing has a main label, which is tagged in most rows, and one more that its duplicate shows.
    centres = 8 * rng.normal(size=(4, 4))
    codes = rng.integers(4, size=300)
    features = centres[codes] + rng.normal(size=(300, 4))
    assert suspected(features, codes)
    again = slice(0, 60)
    assert not suspected(np.concatenate([features, features[again]]), np.concatenate([codes, (codes[again] + 1) % 4]))


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("repeats", [2, 5])
def test_duplicates_estimate_the_size_of_label_sets(size, repeats):
    rng = RNG(size)
    truth = np.repeat(fixed_size(600, size, 8, rng), repeats, axis=0)
    things = np.repeat(rng.normal(size=(600, 3)), repeats, axis=0)
    found = estimate_cardinality(things, draw(truth, rng))
    assert (found.basis, found.pairs) == ("duplicates", 600)
    assert found.interval[0] <= found.estimate <= found.interval[1]
    assert found.estimate == pytest.approx(size, rel=0.15)


def test_the_interval_covers_as_often_as_it_says():
    covered = 0
    for seed in range(100):
        rng = RNG(seed)
        truth = np.repeat(fixed_size(60, 3, 6, rng), 2, axis=0)
        found = estimate_cardinality(np.repeat(rng.normal(size=(60, 2)), 2, axis=0), draw(truth, rng))
        covered += found.interval[0] <= 3 <= found.interval[1]
    assert covered >= 88  # four standard deviations below 95


def test_sizes_that_vary_give_the_harmonic_mean_which_is_below_the_mean():
    rng = RNG(0)
    sizes = rng.choice([1, 6], size=2000)
    truth = (rng.random((2000, 8)).argsort(axis=1) < sizes[:, None]).astype(int)
    tags = np.concatenate([draw(truth, rng), draw(truth, rng)])
    found = estimate_cardinality(np.tile(rng.normal(size=(2000, 3)), (2, 1)), tags)
    assert found.estimate == pytest.approx(1 / np.mean(1 / sizes), rel=0.06)
    assert found.estimate < sizes.mean() / 1.8


@pytest.mark.parametrize(("n_positives", "signal"), [(1.3, 4.0), (2.0, 30.0), (3.0, 6.0)])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_bound_the_harmonic_mean_from_above(n_positives, signal, seed):
    made = make_known_posterior(1500, 4, 8, n_positives=n_positives, signal=signal, random_state=seed)
    found = estimate_cardinality(made.X, made.observed)
    assert found.basis == "neighbours"
    assert found.interval[1] >= 1 / np.mean(1 / made.Y.sum(axis=1))


def test_neighbours_are_exact_where_features_determine_the_set():
    rng = RNG(0)
    sets = fixed_size(12, 2, 6, rng)
    which = rng.integers(12, size=1500)
    centres = 20 * rng.normal(size=(12, 4))
    found = estimate_cardinality(centres[which] + rng.normal(size=(1500, 4)), draw(sets[which], rng))
    assert found.basis == "neighbours"
    assert found.estimate == pytest.approx(2, rel=0.1)


def test_copied_records_do_not_lower_the_bound_of_the_neighbours():
    made = make_known_posterior(600, 4, 6, n_positives=2.5, signal=3.0, random_state=0)
    tags = made.observed.argmax(axis=1)
    few = slice(0, 15)  # too few groups to count as duplicates
    alone = estimate_cardinality(made.X, tags)
    copied = estimate_cardinality(
        np.concatenate([made.X] + 20 * [made.X[few]]), np.concatenate([tags] + 20 * [tags[few]])
    )
    assert copied.basis == alone.basis == "neighbours"
    assert copied.estimate == pytest.approx(alone.estimate, rel=0.1)


def test_rows_that_coincide_by_chance_are_no_duplicates():
    rng = RNG(0)
    coarse = rng.integers(3, size=(500, 2))
    assert estimate_cardinality(coarse, rng.integers(5, size=500)).basis == "neighbours"


def test_repeated_texts_are_duplicates():
    words = RNG(0).choice(["sea", "sky", "ice", "fog", "sun", "wind"], size=(100, 9))
    captions = pd.DataFrame({"caption": np.repeat([" ".join(row) for row in words], 2)})
    found = estimate_cardinality(captions, ["a", "a", "a", "b"] * 50, text="caption")
    assert (found.basis, found.estimate) == ("duplicates", 2.0)


def test_no_evidence():
    found = estimate_cardinality(RNG(0).normal(size=(10, 2)), list("ababababab"))
    assert (found.estimate, found.interval, found.basis, found.pairs) == (None, None, "none", 0)
    assert estimate_cardinality(np.eye(60), ["a"] * 60).basis == "none"
    assert estimate_cardinality(np.ones((60, 2)), list("ab") * 30).basis == "none"


@pytest.mark.parametrize("seed", range(3))
def test_a_list_of_tags_is_no_repeated_draw(seed):
    """Each thing lists two or three of its four labels, each once, and nothing else is known."""
    rng = RNG(seed)
    truth, listed = fixed_size(400, 4, 12, rng), rng.integers(2, 4, size=400)
    order = np.where(truth, rng.random(truth.shape), -1).argsort(axis=1)[:, ::-1]
    things = np.repeat(np.arange(400), listed)
    tags = np.concatenate([order[thing, :size] for thing, size in enumerate(listed)])
    found = estimate_cardinality(rng.normal(size=(400, 3))[things], tags)
    assert (found.basis, found.pairs, found.estimate) == ("list", 400, None)
    assert found.shown == pytest.approx(listed.mean())


def test_nothing_agrees_among_too_few_pairs_to_tell():
    """Twenty pairs of different tags of a hundred labels: neither a list nor an estimate of a hundred."""
    rng = RNG(0)
    tags = np.concatenate([np.arange(40), 40 + rng.integers(60, size=2000)])
    found = estimate_cardinality(
        np.concatenate([np.repeat(rng.normal(size=(20, 3)), 2, axis=0), rng.normal(size=(2000, 3))]), tags
    )
    assert found.basis != "list"
    assert found.basis != "duplicates"


def test_rows_that_show_several_tags_give_no_bound_below_them():
    rng = RNG(1)
    truth = rng.random((600, 6)) < 0.5
    shown = truth & (rng.random(truth.shape) < 0.9)
    assert estimate_cardinality(rng.normal(size=(600, 3)), shown.astype(int)).estimate is None

"""The arrays of a forest say what scikit-learn's trees say; rows left out choose the smoothing; files are checked."""

import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import onepos
from onepos._utils.context import deadline, progress_to
from onepos.datasets import make_known_posterior
from onepos.exceptions import LabelWarning
from onepos.methods._trees import Sample, grow, join

DATA = make_known_posterior(400, 6, 5, random_state=0)
X, Y = np.asarray(DATA.X, dtype=np.float32), np.asarray(DATA.observed)
LABELS = Y.argmax(axis=1)
NOBODY = np.empty(0, dtype=np.intp)


def build(**params):
    return onepos.ForestClassifier(**{"random_state": 0, "n_trees": 40, **params})


def trees_of(sample, seeds, left_out=(), **settings):
    settings = {"min_samples_leaf": 2, "max_features": "sqrt", "splitter": "random", **settings}
    return list(grow(sample, seeds, left_out, n_jobs=2, **settings))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    ("splitter", "tree_class"), [("random", ExtraTreeClassifier), ("best", DecisionTreeClassifier)]
)
def test_leaves_are_those_of_scikit_learn(make, splitter, tree_class):
    rough = np.where(np.abs(X) < 0.5, 0, X)
    sample = Sample(make(rough), LABELS, np.ones(400))
    forest = join([grown.tree for grown in trees_of(sample, [3, 4, 5], splitter=splitter)])
    theirs = [
        tree_class(min_samples_leaf=2, max_features="sqrt", random_state=seed).fit(rough, LABELS) for seed in (3, 4, 5)
    ]
    other = np.random.default_rng(0).standard_normal((1000, 6)).astype(np.float32)
    expected = np.mean([tree.predict_proba(other) for tree in theirs], axis=0)
    # With next to no prior the shares are the leaves' frequencies.
    assert np.allclose(forest.shares(other, np.full(5, 0.2), 1e-12), expected, atol=1e-9)
    assert np.allclose(forest.shares(sparse.csr_array(other), np.full(5, 0.2), 1e-12), expected, atol=1e-9)


def test_rows_on_a_threshold_go_left():
    """A threshold is rounded down to float32: no float32 value changes its side."""
    sample = Sample(X, LABELS, np.ones(400))
    theirs = ExtraTreeClassifier(min_samples_leaf=2, max_features="sqrt", random_state=1).fit(X, LABELS)
    forest = join([grown.tree for grown in trees_of(sample, [1])])
    cuts = theirs.tree_.threshold[theirs.tree_.feature >= 0].astype(np.float32)
    near = np.concatenate([cuts, np.nextafter(cuts, np.float32(9)), np.nextafter(cuts, np.float32(-9))])
    rows = np.repeat(near[:, None], 6, axis=1)
    assert np.allclose(forest.shares(rows, np.full(5, 0.2), 1e-12), theirs.predict_proba(rows), atol=1e-9)


def test_the_prior_is_added_to_every_leaf():
    sample = Sample(X, LABELS, np.ones(400))
    grown = trees_of(sample, [1, 2, 3])
    prior = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    expected = np.zeros((400, 5))
    for one in grown:
        leaf = one.tree.leaves(X)[:, 0]
        counts = np.zeros((leaf.max() + 1, 5))
        np.add.at(counts, (leaf, LABELS), 1.0)
        expected += ((counts + 7 * prior) / (counts.sum(axis=1, keepdims=True) + 7))[leaf] / 3
    assert np.allclose(join([one.tree for one in grown]).shares(X, prior, 7.0), expected)


def test_left_out_rows_have_no_part_in_a_tree():
    out = np.arange(0, 400, 4)
    kept = np.setdiff1d(np.arange(400), out)
    sample = Sample(X, LABELS, np.ones(400))
    (whole,) = trees_of(sample, [5], [out])
    (alone,) = trees_of(Sample(X[kept], LABELS[kept], np.ones(len(kept))), [5])
    for name, array in vars(whole.tree).items():
        assert np.array_equal(array, vars(alone.tree)[name]), name
    # What the tree says of them: their leaf, and their own label there.
    leaf, leaf_of_kept = whole.tree.leaves(X[out])[:, 0], whole.tree.leaves(X[kept])[:, 0]
    assert whole.leaf_weight.tolist() == [(leaf_of_kept == one).sum() for one in leaf]
    own = [
        ((leaf_of_kept == one) & (LABELS[kept] == label)).sum() for one, label in zip(leaf, LABELS[out], strict=True)
    ]
    assert whole.own_weight.tolist() == own


def test_several_observed_labels_share_the_weight_of_their_row():
    both = Y.copy()
    both[:100, [1, 3]] = 1
    model = build().fit(X, both)
    weights = both / both.sum(axis=1, keepdims=True)
    assert np.allclose(model.frequency_, (weights.sum(axis=0) + 0.5) / (400 + 2.5))
    assert model.trees_.counts.dtype == np.float32
    assert model.trees_.counts.sum() == pytest.approx(20 * 400 + 20 * 360, rel=1e-3)


def test_the_number_of_threads_does_not_matter_and_fewer_trees_are_the_first_ones():
    one, two = (build(n_jobs=n).fit(X, Y) for n in (1, 2))
    for name, array in vars(one.trees_).items():
        assert np.array_equal(array, vars(two.trees_)[name]), name
    some = build(n_trees=30).fit(X, Y).trees_
    n_nodes = one.trees_.roots[15]
    assert np.array_equal(some.roots[:16], one.trees_.roots[:16])
    assert np.array_equal(some.threshold[:n_nodes], one.trees_.threshold[:n_nodes])


def test_clear_features_need_little_prior():
    model = build().fit(X[:, [0]] * 0 + LABELS[:, None], Y)
    assert model.prior_weight_ == min(model.validation_scores_)
    assert (model.decision_function(LABELS[:, None].astype(float)).argmax(axis=1) == LABELS).all()


def test_a_label_that_is_never_observed_is_ranked_low():
    with pytest.warns(LabelWarning, match="never observed"):
        model = build().fit(X, np.column_stack([Y, np.zeros(400)]))
    logits = model.decision_function(X)
    assert np.isfinite(logits).all()
    assert (logits.argmin(axis=1) == 5).mean() > 0.5


def test_leaves_grow_with_the_number_of_rows():
    assert build().fit(X, Y).min_samples_leaf_ == 2
    many = np.arange(10_000.0)[:, None]
    assert build(n_trees=1).fit(many, np.eye(2, dtype=int)[np.arange(10_000) % 2]).min_samples_leaf_ == 5


def test_without_time_there_is_one_tree():
    with deadline(time.monotonic() - 1):
        model = build().fit(X, Y)
    assert len(model.trees_.roots) == 1
    assert np.isfinite(model.decision_function(X)).all()


def test_progress_is_told():
    told = []
    with progress_to(lambda step, share: told.append(share)):
        build().fit(X, Y)
    assert told == [(place + 1) / 40 for place in range(40)]


def test_sets_of_new_rows_have_the_size_asked_for_although_fewer_trees_choose_the_threshold():
    data = make_known_posterior(3000, 8, 20, random_state=1)
    model = build(n_trees=200, n_positives=4.0).fit(data.X[:1000], data.observed[:1000])
    sizes = np.asarray(model.predict(data.X[1000:])).sum(axis=1)
    assert sizes.mean() == pytest.approx(4.0, rel=0.08)


@pytest.mark.parametrize("n_trees", [1, 2, 3, 25])
def test_few_trees_cut_sets_as_well(n_trees):
    model = build(n_trees=n_trees, n_positives=2.0).fit(X, Y)
    assert 0.0 <= model.thresholds_[0] <= 1.0
    assert np.asarray(model.predict(X)).sum(axis=1).min() >= 1

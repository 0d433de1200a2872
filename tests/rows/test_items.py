"""A torch Dataset as X: the same bits as the array of its items, read as needed, shapes kept for own networks."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from method_kinds import long_for_others
from onepos import AssumeNegativeClassifier, SMILEClassifier
from onepos.datasets import make_known_posterior
from onepos.methods.registry import METHODS, make_classifier
from onepos.rows.stored import DatasetRows, is_dataset, rows_at_once

GRAPH = ("smile",)


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(140, 6, 5, random_state=0)


class Items(Dataset):
    """Rows of arrays, one after the other, and a note of what was asked for."""

    def __init__(self, *arrays):
        self.arrays = arrays
        self.read = []

    def __len__(self):
        return len(self.arrays[0])

    def __getitem__(self, number):
        self.read.append(number)
        item = tuple(array[number] for array in self.arrays)
        return item if len(item) > 1 else item[0]


class Plain:
    """No torch class: length and items are enough."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        return self.rows[number]


def same(one, other, X, dataset):
    assert np.array_equal(one.decision_function(X), other.decision_function(X))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(dataset))
    assert np.array_equal(one.predict(X), other.predict(dataset))
    assert one.history_["loss"] == other.history_["loss"]
    if hasattr(one, "soft_labels_"):
        assert np.array_equal(one.soft_labels_, other.soft_labels_)


def neural():
    from onepos.methods._neural import NeuralClassifier

    return [key for key in METHODS if issubclass(METHODS[key].load_class(), NeuralClassifier)]


class TestSameBitsAsTheArray:
    @pytest.mark.parametrize("held_out", [True, False])
    @pytest.mark.parametrize("key", long_for_others(neural()))
    def test_every_neural_method_with_and_without_rows_held_out(self, key, held_out, data):
        Y = data.Y if key == "bce" else data.observed
        settings = {"max_epochs": 3, "batch_size": 32, "random_state": 0, "scale": "none", "early_stopping": held_out}
        more = {"graph_features": data.X} if key in GRAPH else {}
        dataset = Items(data.X)
        array = make_classifier(key, **settings).fit(data.X, Y)
        same(array, make_classifier(key, **settings).fit(dataset, Y, **more), data.X, dataset)

    @pytest.mark.parametrize("wrap", [torch.from_numpy, np.float32, list], ids=["tensor", "float32", "lists"])
    def test_labels_in_the_items_and_validation(self, wrap, data):
        train = Items([wrap(row) for row in data.X[:100]], data.observed[:100])
        held = Items([wrap(row) for row in data.X[100:]], data.observed[100:])
        settings = {"max_epochs": 4, "random_state": 0, "scale": "none", "dropout": 0.2}
        array = AssumeNegativeClassifier(**settings).fit(
            data.X[:100], data.observed[:100], validation=(data.X[100:], data.observed[100:])
        )
        for validation in (held, (held, data.observed[100:])):
            model = AssumeNegativeClassifier(**settings).fit(train, validation=validation)
            same(array, model, data.X, Plain(data.X))
            assert array.history_["valid_average_precision"] == model.history_["valid_average_precision"]
        assert model.n_features_in_ == 6
        assert model.history_.facts["scale"] == "none"

    def test_classes_in_the_items_follow_the_single_label_contract(self, data):
        y = data.observed.argmax(axis=1)
        settings = {"max_epochs": 2, "random_state": 0, "scale": "none"}
        model = AssumeNegativeClassifier(**settings).fit(TensorDataset(torch.from_numpy(data.X), torch.from_numpy(y)))
        array = AssumeNegativeClassifier(**settings).fit(data.X, y)
        assert np.array_equal(model.predict(Items(data.X)), array.predict(data.X))

    def test_a_part_of_a_dataset_is_its_rows(self, data):
        part = Subset(Items(data.X, data.observed), range(20, 90))
        settings = {"max_epochs": 2, "random_state": 0, "scale": "none"}
        model = AssumeNegativeClassifier(**settings).fit(part)
        same(
            AssumeNegativeClassifier(**settings).fit(data.X[20:90], data.observed[20:90]), model, data.X, Items(data.X)
        )

    def test_scaled_models_scale_the_items_they_predict(self, data):
        model = AssumeNegativeClassifier(max_epochs=2, random_state=0, scale="standard").fit(data.X, data.observed)
        assert np.array_equal(model.predict_proba(Items(data.X)), model.predict_proba(data.X))
        assert model.score(Items(data.X), data.Y) == model.score(data.X, data.Y)
        model.choose_thresholds(Items(data.X), n_positives=2.0)
        model.calibrate(Items(data.X), data.Y)

    def test_graph_features_beside_an_array_replace_it_and_are_scaled_like_it(self, data):
        settings = {"max_epochs": 5, "random_state": 0, "early_stopping": True}
        plain = SMILEClassifier(**settings).fit(data.X, data.observed)
        again = SMILEClassifier(**settings).fit(data.X, data.observed, graph_features=data.X)
        same(plain, again, data.X, data.X)
        noise = np.random.default_rng(0).normal(size=(140, 3))
        other = SMILEClassifier(**settings).fit(data.X, data.observed, graph_features=noise)
        assert not np.array_equal(other.soft_labels_, plain.soft_labels_)


class TestShapes:
    def test_items_keep_their_shape_for_an_own_network(self, data):
        pictures = data.X.reshape(-1, 1, 2, 3)
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(6, 5))
        seen = []
        network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[1:]))
        settings = {"max_epochs": 2, "random_state": 0, "scale": "none", "network": network}
        model = AssumeNegativeClassifier(**settings).fit(Items(pictures), data.observed)
        assert set(seen) == {(1, 2, 3)}
        assert model.n_features_in_ == 6
        array = AssumeNegativeClassifier(**settings).fit(data.X, data.observed)
        assert np.array_equal(model.predict_proba(Items(pictures)), array.predict_proba(data.X))
        with pytest.raises(ValueError, match=r"rows of shape \(1, 2, 3\).*got \(6,\)"):
            model.predict(data.X)

    def test_the_librarys_own_network_gets_vectors(self, data):
        settings = {"max_epochs": 2, "random_state": 0, "scale": "none"}
        model = AssumeNegativeClassifier(**settings).fit(Items(data.X.reshape(-1, 2, 3)), data.observed)
        same(AssumeNegativeClassifier(**settings).fit(data.X, data.observed), model, data.X, Items(data.X))

    def test_integers_stay_integers_for_an_own_network(self, data):
        tokens = np.random.default_rng(0).integers(0, 9, size=(140, 4))

        def bag(n_features, n_labels):
            assert n_features == 4
            return nn.Sequential(nn.EmbeddingBag(9, 8), nn.Linear(8, n_labels))

        model = AssumeNegativeClassifier(network=bag, max_epochs=2, random_state=0).fit(Items(tokens), data.observed)
        by_hand = model.network_.double()(torch.from_numpy(tokens)).detach().numpy()
        assert np.array_equal(model.decision_function(Items(tokens)), by_hand)
        # For the library's own network they are numbers like any other.
        flat = [
            AssumeNegativeClassifier(max_epochs=2, random_state=0, scale="none").fit(X, data.observed)
            for X in (Items(tokens), tokens.astype(float))
        ]
        assert flat[0].history_["loss"] == flat[1].history_["loss"]

    def test_large_items_are_passed_over_in_small_parts(self):
        assert rows_at_once(DatasetRows.of(Items(np.zeros((3, 64, 64))), flat=True), 5000) == 4096
        assert rows_at_once(np.zeros((3, 1 << 20)), 5000) == 5000


def test_items_are_read_batch_by_batch(data):
    dataset = Items(data.X)
    reads = []

    from onepos.training import Callback

    class Watch(Callback):
        def on_batch_end(self, done, total):
            reads.append(len(dataset.read))
            dataset.read.clear()

    AssumeNegativeClassifier(max_epochs=1, batch_size=20, early_stopping=False, random_state=0).fit(
        dataset, data.observed, callbacks=[Watch()]
    )
    assert reads[1:] == [20] * 6
    assert reads[0] <= 22  # the first item tells the shape


def test_random_items_follow_the_seed_and_leave_the_global_generator(data):
    class Noisy(Items):
        def __getitem__(self, number):
            return super().__getitem__(number) + torch.randn(6).numpy()

    losses = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        state = torch.get_rng_state()
        model = AssumeNegativeClassifier(max_epochs=2, random_state=0).fit(Noisy(data.X), data.observed)
        losses.append(model.history_["loss"])
    assert losses[0] == losses[1]
    first = torch.get_rng_state()
    # Item 0 is read once before training starts, to learn its shape.
    torch.set_rng_state(state)
    torch.randn(6)
    assert torch.equal(torch.get_rng_state(), first)


@pytest.mark.parametrize(
    "value", [[[1.0]], np.zeros((2, 2)), torch.zeros(2, 2), "text", {"a": 1}, (1, 2), None, 3, DatasetRows]
)
def test_arrays_and_containers_are_no_datasets(value):
    assert not is_dataset(value)


class TestErrors:
    def fit(self, X, y=None, **more):
        return AssumeNegativeClassifier(max_epochs=1, **more).fit(X, y)

    def test_an_iterable_dataset(self, data):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(data.X)

        with pytest.raises(TypeError, match=r"map-style.*Stream has no length.*collect"):
            self.fit(Stream(), data.observed)

    def test_no_labels(self, data):
        with pytest.raises(TypeError, match=r"items \(x, y\).*item 0 is a ndarray.*fit\(dataset, Y\)"):
            self.fit(Items(data.X))
        with pytest.raises(ValueError, match="requires y"):
            self.fit(data.X)

    def test_scaling(self, data):
        with pytest.raises(ValueError, match=r"'auto' or 'none', got 'standard'.*normalising layer"):
            self.fit(Items(data.X), data.observed, scale="standard")

    def test_items_of_two_shapes(self, data):
        rows = [row[: 6 - (number == 5)] for number, row in enumerate(data.X)]
        with pytest.raises(ValueError, match=r"item 0 of the Dataset has shape \(6,\), that of item 5 \(5,\)"):
            self.fit(Plain(rows), data.observed)

    def test_items_that_are_not_numbers(self, data):
        with pytest.raises(TypeError, match="x of item 0 of the Dataset is a dict"):
            self.fit(Plain([{"x": row} for row in data.X]), data.observed)

    def test_labels_of_two_shapes(self, data):
        labels = [row[: 5 - (number == 5)] for number, row in enumerate(data.observed)]
        with pytest.raises(ValueError, match=r"one shape in all items.*\[\(4,\), \(5,\)\]"):
            self.fit(Items(data.X, labels))

    def test_missing_values(self, data):
        X = data.X.copy()
        X[17, 2] = np.nan
        with pytest.raises(ValueError, match="item 17 of the Dataset holds NaN"):
            self.fit(Items(X), data.observed)

    def test_none_and_one_item(self, data):
        with pytest.raises(ValueError, match="none"):
            self.fit(Items(data.X[:0]), data.observed[:0])
        with pytest.raises(ValueError, match="2 items or more"):
            self.fit(Items(data.X[:1]), data.observed[:1])

    def test_other_numbers_of_features_and_rows(self, data):
        model = self.fit(Items(data.X), data.observed)
        with pytest.raises(ValueError, match=r"5 features.*expecting 6"):
            model.predict(Items(data.X[:, :5]))
        with pytest.raises(ValueError, match="140 and 139"):
            self.fit(Items(data.X), data.observed[1:])

    @pytest.mark.parametrize("key", ["logistic", "frequency", "auto"])
    def test_methods_without_a_network(self, key, data):
        with pytest.raises(TypeError, match="features as a matrix; got a Items"):
            make_classifier(key).fit(Items(data.X), data.observed)

    @pytest.mark.parametrize(("key", "settings"), [("smile", {}), ("role", {"n_positives": "estimate"})])
    def test_methods_with_a_graph_ask_for_graph_features(self, key, settings, data):
        with pytest.raises(ValueError, match="array of 140 rows as graph_features"):
            make_classifier(key, **settings).fit(Items(data.X), data.observed)

    def test_graph_features_of_other_rows_or_for_nothing(self, data):
        with pytest.raises(ValueError, match="each of the 140 rows; got 100"):
            SMILEClassifier().fit(data.X, data.observed, graph_features=data.X[:100])
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            AssumeNegativeClassifier().fit(data.X, data.observed, graph_features=data.X)

"""Networks of one's own: made from the seed, tried before training, with rates and precision of their parts."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from onepos import AssumeNegativeClassifier, SMILEClassifier
from onepos.datasets import make_known_posterior
from onepos.exceptions import ModelFileError
from onepos.methods.registry import make_classifier
from onepos.training import (
    Batch,
    Callback,
    Objective,
    Schedule,
    TrainingRows,
    check_rate_factors,
    forward_precision,
    train,
)
from onepos.training.losses import assume_negative
from onepos.training.networks import MLP


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(120, 6, 5, random_state=0)


class Parts(nn.Module):
    """A backbone with dropout, from torch's global generator, and a head."""

    def __init__(self, n_features, n_labels, dropout=0.0):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Dropout(dropout))
        self.head = nn.Linear(8, n_labels)

    def forward(self, features):
        return self.head(self.backbone(features))


def build(**params):
    settings = {"max_epochs": 3, "batch_size": 32, "random_state": 0, "early_stopping": False}
    return AssumeNegativeClassifier(**{**settings, **params})


def weights_of(model):
    return torch.cat([p.detach().ravel() for p in model.network_.parameters()])


class TestFactory:
    def test_repeats_with_the_seed_and_leaves_the_global_generator_as_it_was(self, data):
        found = []
        for global_seed in (1, 2):
            torch.manual_seed(global_seed)
            before = torch.get_rng_state()
            model = build(network=lambda q, c: Parts(q, c, dropout=0.3)).fit(data.X, data.observed)
            assert torch.equal(torch.get_rng_state(), before)
            found.append(weights_of(model))
        assert torch.equal(*found)
        other = build(network=lambda q, c: Parts(q, c, dropout=0.3), random_state=1).fit(data.X, data.observed)
        assert not torch.equal(weights_of(other), found[0])

    def test_dropout_of_a_given_module_follows_the_seed_too(self, data):
        torch.manual_seed(5)
        network = Parts(6, 5, dropout=0.5)
        found = []
        for global_seed in (1, 2):
            torch.manual_seed(global_seed)
            found.append(weights_of(build(network=network).fit(data.X, data.observed)))
        assert torch.equal(*found)

    def test_equals_the_module_it_makes(self, data):
        """A factory that returns a copy of a module trains as the module itself does."""
        torch.manual_seed(0)
        network = Parts(6, 5)
        given = build(network=network).fit(data.X, data.observed)
        made = build(network=lambda q, c: pickle.loads(pickle.dumps(network))).fit(data.X, data.observed)
        assert torch.equal(weights_of(given), weights_of(made))
        assert not torch.equal(torch.cat([p.detach().ravel() for p in network.parameters()]), weights_of(given))

    def test_a_class_is_a_factory_and_gets_the_sizes(self, data):
        model = build(network=Parts).fit(data.X, data.observed)
        assert isinstance(model.network_, Parts)
        assert model.network_.backbone[0].in_features == 6
        assert model.network_.head.out_features == 5
        assert model.predict_proba(data.X).shape == (120, 5)

    def test_lazy_layers_take_their_sizes_from_the_first_rows(self, data):
        network = nn.Sequential(nn.LazyLinear(7), nn.ReLU(), nn.LazyLinear(5))
        assert build(network=network).fit(data.X, data.observed).network_[0].in_features == 6


@pytest.mark.parametrize(
    ("network", "kind", "message"),
    [
        (nn.Linear(6, 4), ValueError, r"\(2, 5\) for a batch of features of shape \(2, 6\); got \(2, 4\).*5 outputs"),
        (nn.Linear(7, 5), ValueError, r"\(Linear\) could not read a batch of features of shape \(2, 6\).*RuntimeError"),
        (nn.Flatten(), ValueError, "parameters to train; Flatten has none"),
        (lambda q, c: "a network", TypeError, r"torch.nn.Module.*\(6, 5\) returned a str"),
        (nn.LSTM(6, 5), TypeError, r"must return a tensor of logits.*got a tuple"),
        (nn.Linear(6, 5).requires_grad_(False), ValueError, "nothing is left to train"),
        (3, ValueError, "'network' parameter"),
    ],
)
def test_wrong_networks_are_told_before_training(data, network, kind, message):
    with pytest.raises(kind, match=message):
        build(network=network).fit(data.X, data.observed)


@pytest.mark.parametrize("network", [nn.Linear(6, 5), lambda q, c: MLP([q, c])])
def test_models_with_an_own_network_are_not_saved_and_say_how_to_keep_them(data, network, tmp_path):
    model = build(network=network).fit(data.X, data.observed)
    with pytest.raises(ModelFileError, match=r"network of your own .*state_dict.*joblib"):
        model.save(tmp_path / "m.onepos")


def test_the_two_ways_to_keep_a_model_work(data, tmp_path):
    model = build(network=Parts).fit(data.X, data.observed)
    torch.save(model.network_.state_dict(), tmp_path / "weights")
    network = Parts(6, 5).double()
    network.load_state_dict(torch.load(tmp_path / "weights", weights_only=True))
    scaled = torch.from_numpy(model.scaler_.transform(data.X)).double()
    with torch.no_grad():
        assert np.array_equal(network(scaled).numpy(), model.decision_function(data.X))
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(data.X), model.predict_proba(data.X))


class AssumeNegative(Objective):
    def losses(self, batch):
        yield "risk", assume_negative(self.network(batch.features), batch.observed)


def _rows(data):
    return TrainingRows.from_arrays(data.X.astype(np.float32), data.observed.astype(np.int8), np.arange(len(data.X)))


class TestLearningRateFactors:
    def test_equal_torchs_adamw_with_parameter_groups(self, data):
        torch.manual_seed(0)
        ours, theirs = Parts(6, 5), Parts(6, 5)
        theirs.load_state_dict(ours.state_dict())
        rows = _rows(data)
        factors = {"backbone": 0.1, "backbone.0.bias": 0.0, "head.bias": 3.0}
        schedule = Schedule(3, 40, 0.02, weight_decay=0.1, rate_factors=factors)
        train(AssumeNegative(ours), rows, schedule, torch.Generator().manual_seed(4))

        rates = {"backbone.0.weight": 0.002, "head.weight": 0.02, "head.bias": 0.06}  # the bias of 0 is frozen
        groups = [{"params": [p], "lr": rates[name]} for name, p in theirs.named_parameters() if name in rates]
        optimizer = torch.optim.AdamW(groups, weight_decay=0.1)
        generator = torch.Generator().manual_seed(4)
        start = theirs.backbone[0].bias.detach().clone()
        for _ in range(3):
            for index in torch.randperm(120, generator=generator).split(40):
                optimizer.zero_grad()
                batch = Batch(index, rows.gather(index), rows.observed[index])
                assume_negative(theirs(batch.features), batch.observed).backward()
                optimizer.step()
        for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(one, other, atol=1e-6), name
        assert torch.equal(ours.backbone[0].bias, start)

    @pytest.mark.parametrize("key", ["an", "smile"])
    def test_reach_the_network_of_every_method_and_zero_freezes(self, data, key):
        torch.manual_seed(0)
        network = Parts(6, 5)
        model = make_classifier(key, network=network, max_epochs=2, learning_rate_factors={"backbone": 0})
        model.fit(data.X, data.observed)
        assert torch.equal(model.network_.backbone[0].weight, network.backbone[0].weight)
        assert not torch.equal(model.network_.head.weight, network.head.weight)

    def test_frozen_parts_of_a_module_stay_frozen_in_smile(self, data):
        network = Parts(6, 5)
        network.backbone.requires_grad_(False)
        model = SMILEClassifier(network=network, max_epochs=2, random_state=0).fit(data.X, data.observed)
        assert torch.equal(model.network_.backbone[0].weight, network.backbone[0].weight)

    def test_a_factor_of_one_changes_no_bit(self, data):
        plain = build().fit(data.X, data.observed)
        assert torch.equal(
            weights_of(plain), weights_of(build(learning_rate_factors={"0": 1}).fit(data.X, data.observed))
        )

    @pytest.mark.parametrize(
        ("factors", "message"),
        [
            ({"back": 0.1}, r"names 'back'.*are: backbone, head; .*'backbone.0.weight'"),
            ({"head": -1}, r"\['head'\] must be a number from 0 on.*-1"),
            ({"head": "small"}, r"\['head'\] must be a number"),
            ({"backbone": 0, "head": 0}, "nothing is left to train"),
        ],
    )
    def test_wrong_factors_are_refused(self, factors, message):
        with pytest.raises(ValueError, match=message):
            check_rate_factors(Parts(6, 5), factors)


class TestPrecision:
    def test_forward_passes_are_torchs_autocast_and_logits_float32(self):
        torch.manual_seed(0)
        network, features = Parts(6, 5), torch.randn(4, 6)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            expected = network(features)
        assert expected.dtype == torch.bfloat16
        with forward_precision(network, "bfloat16", "cpu"):
            found = network(features)
        assert found.dtype == torch.float32
        assert torch.equal(found, expected.float())
        assert network(features).dtype == torch.float32
        assert not torch.equal(network(features), found)

    @pytest.mark.parametrize("key", ["an", "smile", "role", "crisp"])
    def test_training_keeps_weights_and_losses_in_float32_and_comes_near(self, data, key):
        kinds = set()

        class Watch(Callback):
            def on_epoch_end(self, objective, record):
                kinds.update(p.dtype for p in objective.parameters())
                kinds.add(objective.network(torch.zeros(2, 6)).dtype)

        fits = [
            make_classifier(key, max_epochs=5, early_stopping=False, random_state=0, precision=precision).fit(
                data.X, data.observed, callbacks=[Watch()]
            )
            for precision in ("float32", "bfloat16")
        ]
        exact, rounded = (model.predict_proba(data.X) for model in fits)
        assert kinds == {torch.float32}
        assert not np.array_equal(exact, rounded)
        # Eight bits of mantissa: steps differ by less than a hundredth, and probabilities by a few.
        assert np.abs(exact - rounded).max() < 0.05

"""Scores of another model: calibrated by the given tags, and as one more member of auto."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

import onepos
from onepos import AutoClassifier
from onepos.datasets import make_known_posterior
from onepos.exceptions import DataFileError
from onepos.methods.scores import ScoresClassifier
from onepos.metrics import average_precision
from onepos.table import TableModel
from photo_table import photo_table

DATA = make_known_posterior(700, 6, 5, random_state=0)
X, Y, OBSERVED = DATA.X, np.asarray(DATA.Y), DATA.observed
TRAIN, TEST = slice(0, 400), slice(400, None)
METHODS = ("frequency", "logistic")


def noisy(quality, seed=0):
    """Scores that tell the complete labels by so many standard deviations."""
    return quality * (2.0 * Y - 1) + np.random.default_rng(seed).normal(size=Y.shape)


def auto(**more):
    return AutoClassifier(**{"methods": METHODS, "time_budget": None, "n_folds": 2, "random_state": 0} | more)


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


class TestCalibration:
    def test_slope_and_offsets_that_made_the_tags_come_back(self):
        generator = np.random.default_rng(0)
        scores, offsets = generator.normal(size=(20_000, 4)), np.array([0.5, 0.0, -1.0, 0.5])
        shares = np.exp(log_softmax(1.7 * scores + offsets, axis=1))
        tags = (generator.random((len(scores), 1)) > shares.cumsum(axis=1)).sum(axis=1)
        model = ScoresClassifier().fit(scores, np.eye(4, dtype=int)[tags])
        assert model.slope_ == pytest.approx(1.7, abs=0.06)
        np.testing.assert_allclose(model.offsets_ - model.offsets_[1], offsets, atol=0.1)
        assert model.link_ == "plain"

    def test_probabilities_are_taken_as_log_odds_if_that_is_likelier(self):
        generator = np.random.default_rng(0)
        odds = 2.0 * generator.normal(size=(5_000, 4))
        shares = np.exp(log_softmax(odds, axis=1))
        tags = np.eye(4, dtype=int)[(generator.random((len(odds), 1)) > shares.cumsum(axis=1)).sum(axis=1)]
        model = ScoresClassifier().fit(1 / (1 + np.exp(-odds)), tags)
        assert model.link_ == "odds"
        assert model.slope_ == pytest.approx(1.0, abs=0.06)

    def test_useless_and_reversed_scores_rank_by_frequency(self):
        for scores in (noisy(-1.0), np.zeros(Y.shape)):
            model = ScoresClassifier().fit(scores, OBSERVED)
            order = np.argsort(-model._log_shares(scores), axis=1)
            assert (order == np.argsort(-OBSERVED.sum(axis=0), kind="stable")).all()

    def test_the_number_of_columns_is_checked(self):
        with pytest.raises(ValueError, match="expected one score per label, 5; got 4 columns"):
            ScoresClassifier().fit(X[:, :4], OBSERVED)


class TestAuto:
    @pytest.mark.parametrize("quality", [0.0, 1.0, 3.0])
    def test_never_much_worse_than_without_or_than_the_scores_alone(self, quality):
        scores = noisy(quality)
        both = np.hstack([X, scores])
        model = quietly(auto(n_scores=5), both[TRAIN], OBSERVED[TRAIN])
        plain = quietly(auto(), X[TRAIN], OBSERVED[TRAIN])
        found = average_precision(Y[TEST], model.decision_function(both[TEST]))
        assert found > average_precision(Y[TEST], plain.decision_function(X[TEST])) - 0.01
        assert found > average_precision(Y[TEST], scores[TEST]) - 0.01
        assert model.history_["method"] == ["frequency", "scores", "logistic, scores", "logistic"]

    def test_other_members_do_not_see_them(self):
        both = np.hstack([X, noisy(1.0)])
        model = quietly(auto(n_scores=5), both[TRAIN], OBSERVED[TRAIN])
        wide = {type(member).__name__: member.n_features_in_ for member in model.members_}
        assert wide.pop("ScoresClassifier") == 5
        assert set(wide.values()) <= {6, 11}

    def test_they_are_stored(self, tmp_path):
        both = np.hstack([X, noisy(1.0)])
        model = quietly(auto(n_scores=5), both[TRAIN], OBSERVED[TRAIN])
        again = onepos.load(model.save(tmp_path / "m.onepos"))
        np.testing.assert_array_equal(again.decision_function(both), model.decision_function(both))

    def test_a_wrong_number_is_refused(self):
        for number, features in ((4, np.hstack([X, X[:, :5]])), (5, X[:, :5])):
            with pytest.raises(ValueError, match="n_scores must be 0, or the number of labels"):
                auto(n_scores=number).fit(features, OBSERVED)


class TestOwnClassifiers:
    def test_a_classifier_is_a_member(self):
        model = quietly(auto(methods=["frequency", LogisticRegression(C=0.1)]), X[TRAIN], OBSERVED[TRAIN])
        assert model.history_["method"] == ["frequency", "LogisticRegression"]
        assert "LogisticRegression" in model.comparison_["methods"]
        alone = onepos.ObservedTagClassifier(estimator=LogisticRegression(C=0.1), smoothing=0.01)
        alone.fit(X[TRAIN], OBSERVED[TRAIN])
        (member,) = [one for one in model.members_ if isinstance(one, onepos.ObservedTagClassifier)]
        np.testing.assert_allclose(member._log_shares(X), alone._log_shares(X), atol=1e-8)
        with pytest.raises(onepos.exceptions.ModelFileError, match="only pickle can store"):
            model.save("never.onepos")

    def test_names_and_ours(self):
        methods = ["sklearn.naive_bayes:GaussianNB", onepos.LogisticClassifier(l2=1.0)]
        model = quietly(auto(methods=methods), X[TRAIN], OBSERVED[TRAIN])
        assert model.history_["method"] == ["sklearn.naive_bayes:GaussianNB", "logistic"]
        with pytest.raises(ValueError, match="methods must name some of auto, frequency"):
            auto(methods=["frequency", "nosuch"]).fit(X, OBSERVED)


class TestTables:
    def table(self):
        photos = photo_table(200)
        generator = np.random.default_rng(0)
        for label in ("beach", "city"):
            true = photos["tags"].str.contains(label)
            scores = 3.0 * true + generator.normal(size=200)
            photos[f"clip({label})"] = np.where(generator.random(200) < 0.2, np.nan, scores)
        return photos.drop(columns=["tags", "caption"])

    def test_on_the_command_line(self, run, tmp_path):
        self.table().to_csv(tmp_path / "photos.csv", index=False)
        methods = ("--set", "methods=('frequency','logistic')", "--set", "time_budget=None")
        fit = ("fit", tmp_path / "photos.csv", "--label", "tag", "--id", "id", *methods)
        code, said, err = run(*fit, "--scores", "clip", "--out", tmp_path / "m.onepos")
        assert code == 0, err
        assert "'clip(beach)'" in said  # missing cells
        for data, expected in ((self.table(), 0), (self.table().drop(columns="clip(beach)"), 2)):
            data.to_csv(tmp_path / "new.csv", index=False)
            code, _, err = run("predict", tmp_path / "m.onepos", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
            assert code == expected, err
        for more, message in (
            (("--scores", "llm"), "expected names such as 'llm(beach)'"),
            (("--scores", "clip", "--method", "logistic"), "--scores is for the method auto"),
        ):
            code, _, err = run(*fit[:6], *more, "--out", tmp_path / "n.onepos")
            assert code == 2
            assert message in err.splitlines()[-1]

    def test_gaps_are_the_mean_and_missing_columns_zero(self):
        table = self.table()
        model = TableModel(scores="clip", id="id", params={"methods": METHODS, "time_budget": None, "n_folds": 2})
        model.fit(table, label="tag")
        scores = pd.DataFrame(model.encoder_.transform(table)[:, -3:], columns=model.labels_)
        known = table["clip(beach)"].notna()
        np.testing.assert_allclose(scores["beach"][known], table["clip(beach)"][known], rtol=1e-5)
        np.testing.assert_allclose(scores["beach"][~known], table["clip(beach)"].mean(), rtol=1e-5)
        assert not scores["night"].any()
        assert model.encoder_.kinds_.keys().isdisjoint({"clip(beach)", "clip(city)"})
        with pytest.raises(DataFileError, match="no column holds scores"):
            TableModel(scores="other", id="id").fit(table, label="tag")

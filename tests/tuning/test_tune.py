"""Tuning finds what is best by its criterion, starts from the defaults, and ends well however it ends."""

import io
import itertools
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import onepos
from onepos import metrics
from onepos.datasets import make_known_posterior
from onepos.exceptions import MissingDependencyError, TrainingWarning
from onepos.methods._base import OnePositiveClassifier
from onepos.tuning import TuneResult, tune

optuna = pytest.importorskip("optuna")

BEST = 0.7


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(100, 5, 4, random_state=3)


class _Fitted(OnePositiveClassifier):
    n_rows_: int


@dataclass(kw_only=True, eq=False, repr=False)
class Contrived(_Fitted):
    """Scores rows by their first columns, spoilt by the others the more, the further ``x`` is from BEST."""

    x: float = 0.1
    kind: str = "good"
    random_state: Any = None
    calls: ClassVar[list[float]] = []
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def fit(self, X, y, *, validation=None, validation_labels="single"):
        X, _ = self._check_training(X, y)
        self.calls.append(self.x)
        if self.kind == "bad":
            raise RuntimeError("this setting breaks")
        if self.kind == "interrupt":
            raise KeyboardInterrupt
        self.n_rows_ = len(X)
        return self

    def _logits(self, X):
        return X[:, :4] + 20.0 * abs(self.x - BEST) * X[:, 4:]


@pytest.fixture
def contrived():
    rng = np.random.default_rng(0)
    Y = np.eye(4, dtype=int)[np.arange(200) % 4]
    Contrived.calls.clear()
    return np.hstack([Y + 0.5 * rng.normal(size=Y.shape), rng.normal(size=Y.shape)]), Y


def test_finds_the_best_of_a_contrived_space(contrived):
    found = tune(Contrived(), *contrived, n_trials=40, space={"x": (0.0, 1.0)}, random_state=0)
    assert isinstance(found, TuneResult)
    assert abs(found.best_params["x"] - BEST) < 0.05
    assert found.best_score == found.trials["score"].max() > found.trials["score"][0] + 0.2
    assert found.best_estimator.n_rows_ == 200  # all rows
    assert found.best_estimator.x == found.best_params["x"] == Contrived.calls[-1]


def test_the_score_is_the_mean_reciprocal_rank_of_rows_held_out_once(contrived):
    """The contrived method learns nothing, so five folds together are the rows that may be held out."""
    found = tune(Contrived(), *contrived, n_trials=1, space={"x": (0.0, 1.0)}, random_state=0)
    X, Y = contrived
    scores = X[:, :4] + 20.0 * abs(0.1 - BEST) * X[:, 4:]
    observed = (scores * Y).sum(axis=1)
    ranks = (scores >= observed[:, None]).sum(axis=1)
    assert found.criterion == "mean_reciprocal_rank"
    # Four rows, one per label, are never held out.
    assert abs(found.best_score * 196 - (1.0 / ranks).sum()) <= 4


def test_the_defaults_come_first_and_win_a_draw(contrived):
    found = tune(Contrived(x=BEST), *contrived, n_trials=6, space={"x": (0.0, 1.0)}, random_state=0)
    assert found.trials["x"][0] == BEST
    assert found.best_score >= found.trials["score"][0]
    constant = tune(Contrived(), *contrived, n_trials=4, space={"kind": ["a", "b"]}, random_state=0)
    assert constant.trials["kind"][0] == "good"
    assert constant.best_params == {"kind": "good"}


def test_failing_trials_are_recorded(contrived):
    space = {"kind": ["good", "bad"]}
    found = tune(Contrived(), *contrived, n_trials=10, space=space, random_state=0)
    bad = found.trials["kind"] == "bad"
    assert bad.any()
    assert (found.trials["state"] == np.where(bad, "failed", "complete")).all()
    assert (found.trials.loc[bad, "error"] == "RuntimeError: this setting breaks").all()
    assert found.trials.loc[bad, "score"].isna().all()
    with pytest.raises(ValueError, match=r"none of 3 trials succeeded.*this setting breaks"):
        tune(Contrived(kind="bad"), *contrived, n_trials=3, space={"x": (0.0, 1.0)})


def test_interrupted(contrived):
    space = {"kind": ["interrupt"]}
    with pytest.warns(TrainingWarning, match="interrupted in trial 1"):
        found = tune(Contrived(), *contrived, n_trials=10, space=space, random_state=0)
    assert found.stopped == "interrupted"
    assert found.trials["state"].tolist() == ["complete", "stopped"]
    assert found.best_params == {"kind": "good"}
    assert found.best_estimator.predict_proba(contrived[0]).shape == (200, 4)


def test_interrupted_within_a_fit(data, monkeypatch):
    """The training loop turns Ctrl-C into a usable model; tuning has to notice."""
    from onepos.tuning import _Watch

    epochs = itertools.count()

    def interrupt(self, objective, record):
        if next(epochs) == 12:  # after 5 folds of 2 epochs, in trial 1
            raise KeyboardInterrupt

    monkeypatch.setattr(_Watch, "on_epoch_end", interrupt)
    base = onepos.AssumeNegativeClassifier(max_epochs=2)
    with pytest.warns(TrainingWarning, match="interrupted in trial 1"):
        found = tune(base, data.X, data.observed, n_trials=5, random_state=0)
    assert found.trials["state"].tolist() == ["complete", "stopped"]
    assert found.best_params["learning_rate"] == base.learning_rate
    assert found.best_estimator.history_.facts["stopped"] == "max_epochs"


def test_rows_on_disk_are_not_loaded(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(2, 1 << 23))
    with pytest.raises(ValueError, match="memory-mapped"):
        tune("an", X, np.eye(2, dtype=int))


def test_the_budget_ends_the_search(contrived, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr("onepos.tuning.time.monotonic", lambda: float(next(ticks)))
    space = {"x": (0.0, 1.0)}
    found = tune(Contrived(), *contrived, n_trials=1000, time_budget=200, space=space, random_state=0)
    assert found.stopped == "time_budget"
    assert 5 < len(found.trials) < 60
    assert next(ticks) < 220


def test_a_tiny_budget_leaves_the_defaults(data):
    found = tune("an", data.X, data.observed, time_budget=1e-9, n_trials=5, random_state=0)
    assert found.stopped == "time_budget"
    assert found.trials["state"].tolist() == ["stopped"]
    assert np.isnan(found.best_score)
    assert found.best_estimator.max_epochs == onepos.AssumeNegativeClassifier().max_epochs
    assert found.best_estimator.predict_proba(data.X).shape == (100, 4)


@pytest.mark.parametrize("key", ["an", "smile", "logistic"])
def test_methods(data, key, capsys):
    settings = {"max_epochs": 3} if key in ("an", "smile") else {}
    base = onepos.make_classifier(key, **settings)
    before = base.get_params()
    runs = [tune(base, data.X, data.observed, n_trials=3, random_state=5) for _ in range(2)]
    first, again = runs
    assert first.trials.drop(columns="seconds").equals(again.trials.drop(columns="seconds"))
    assert np.array_equal(first.best_estimator.predict_proba(data.X), again.best_estimator.predict_proba(data.X))
    assert first.best_params == again.best_params
    assert (first.trials["state"] == "complete").all()
    assert first.best_score == first.trials["score"].max()
    assert base.get_params() == before
    assert not hasattr(base, "classes_")
    again_fitted = onepos.make_classifier(key, **first.best_estimator.get_params()).fit(data.X, data.observed)
    assert np.array_equal(again_fitted.predict_proba(data.X), first.best_estimator.predict_proba(data.X))
    if settings:
        assert first.best_params["early_stopping"] is False
        assert 1 <= first.best_params["max_epochs"] <= 3
    assert capsys.readouterr() == ("", "")  # nor does optuna log


def test_complete_validation_labels(data):
    held = make_known_posterior(60, 5, 4, random_state=3)
    found = tune(
        "an",
        data.X,
        data.observed,
        n_trials=2,
        space={"learning_rate": (1e-3, 1e-1, "log")},
        validation=(held.X, held.Y),
        validation_labels="full",
        random_state=0,
    )
    assert found.criterion == "average_precision"
    # The last fit chooses its epoch on the same rows and so repeats the best trial.
    again = metrics.average_precision(held.Y, found.best_estimator.decision_function(held.X))
    assert again == pytest.approx(found.best_score)
    assert set(found.best_params) == {"learning_rate"}


@pytest.mark.filterwarnings("ignore:y has one class per row")
@pytest.mark.parametrize("form", ["frame", "sparse", "classes", "two classes"])
def test_forms_of_data(data, form):
    X, Y = data.X, data.observed
    if form == "frame":
        X, Y = pd.DataFrame(X, columns=list("vwxyz")), pd.DataFrame(Y, columns=["red", "green", "blue", "grey"])
    elif form == "sparse":
        X, Y = sparse.coo_array(X), sparse.coo_array(Y)
    else:
        y = Y.argmax(axis=1) % (2 if form == "two classes" else 4)
        Y = pd.Series(np.array(["red", "green", "blue", "grey"])[y])
    found = tune("logistic", X, Y, n_trials=2, space={"l2": (1.0, 100.0, "log")}, random_state=0)
    assert 0 < found.best_score <= 1
    assert list(found.best_estimator.classes_) == list(onepos.FrequencyClassifier().fit(X, Y).classes_)


def test_hopeless_settings_are_ended_early(data):
    """A learning rate that learns nothing falls behind the median of the others after the first epochs."""
    settings = {"learning_rate": 0.01, "patience": None, "batch_size": 64, "selection_metric": "average_precision"}
    base = onepos.AssumeNegativeClassifier(max_epochs=12, start="random", **settings)  # a start that knows nothing
    space = {"learning_rate": (1e-12, 3e-2, "log")}
    found = tune(base, data.X, data.observed, n_trials=14, space=space, random_state=0)
    assert "pruned" in set(found.trials["state"])
    pruned = found.trials[found.trials["state"] == "pruned"]
    assert pruned["learning_rate"].max() < found.best_params["learning_rate"]
    assert found.trials["state"][:5].eq("complete").all()


def test_a_given_seed_stays_and_ones_own_network_is_not_replaced(data):
    from torch import nn

    base = onepos.AssumeNegativeClassifier(max_epochs=2, random_state=11, network=nn.Linear(5, 4))
    found = tune(base, data.X, data.observed, n_trials=2, random_state=0)
    assert found.best_estimator.random_state == 11
    assert not {"network", "dropout"} & set(found.best_params)


def test_progress_on_standard_error(contrived, capsys):
    tune(Contrived(), *contrived, n_trials=3, space={"x": (0.0, 1.0)}, random_state=0, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 4
    assert "trial 3 of 3, best 0." in err
    assert err.endswith("training with the best settings\n")


def test_progress_on_a_terminal_is_one_line(contrived, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    tune(Contrived(), *contrived, n_trials=2, space={"x": (0.0, 1.0)}, random_state=0, verbose=1)
    assert stream.getvalue().count("\n") == 1
    assert "Contrived ██████████████████████░░  90% training with the best settings" in stream.getvalue()


def test_optuna_keeps_its_own_level(contrived):
    before = optuna.logging.get_verbosity()
    tune(Contrived(), *contrived, n_trials=2, space={"x": (0.0, 1.0)}, random_state=0)
    assert optuna.logging.get_verbosity() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_trials": 0}, "n_trials must be at least 1"),
        ({"time_budget": 0}, "seconds above 0"),
        ({"space": {"y": (0.0, 1.0)}}, "has no parameter y"),
        ({"space": {"x": 3}}, r"space\['x'\] must be \(low, high\)"),
        ({"space": None}, "Contrived has nothing to tune"),
        ({"validation_labels": "full"}, "needs validation"),
        ({"validation_labels": "clean"}, '"single" or "full"'),
        ({"method": 3}, "got int"),
        ({"method": "smiles"}, "unknown method"),
    ],
)
def test_clear_errors(contrived, changes, message):
    arguments = {"method": Contrived(), "n_trials": 2, "space": {"x": (0.0, 1.0)}} | changes
    method = arguments.pop("method")
    with pytest.raises(ValueError, match=message):
        tune(method, *contrived, **arguments)


def test_without_optuna(contrived, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingDependencyError, match=r"tuning needs optuna.*onepos\[tune\]"):
        tune(Contrived(), *contrived, space={"x": (0.0, 1.0)})


@pytest.mark.parametrize("values", [(1, 1), (0.0, 1.0, "log"), (0, 5, "log"), (0, 5, "lin"), (1,), ("a", "b"), []])
def test_ranges_are_checked(contrived, values):
    with pytest.raises(ValueError, match=r"low below high, or a list of values; got .* begins above 0"):
        tune(Contrived(), *contrived, space={"x": values})

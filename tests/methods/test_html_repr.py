"""What a notebook shows of a model: what was learnt, as text, above scikit-learn's own diagram."""

import pandas as pd
import pytest
from sklearn import config_context

import onepos
from onepos.datasets import make_known_posterior
from onepos.table import TableModel
from photo_table import photo_table

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def data():
    return make_known_posterior(150, 5, 4, random_state=2)


def test_fitted_models_say_what_they_learnt(data):
    Y = pd.DataFrame(data.observed, columns=[NASTY, "b", "c", "d"])
    settings = {"early_stopping": True, "selection_metric": "average_precision", "random_state": 0}
    model = onepos.make_classifier("an", max_epochs=3, **settings)
    unfitted = model._repr_html_()
    assert "<caption" not in unfitted
    model.fit(data.X, Y).calibrate(data.X, data.Y)
    shown = model._repr_html_()
    facts = model.history_.facts
    for words in (
        "AssumeNegativeClassifier, fitted",
        "4: &lt;script&gt;",
        f"average precision {facts['best_average_precision']:.4f} in epoch {facts['best_epoch']}",
        "150 rows with complete labels",
        f'<td style="text-align:left">{model.thresholds_[0]:.3g}</td>',
    ):
        assert words in shown
    assert NASTY not in shown.partition("</table>")[0]
    assert "sk-top-container" in shown
    assert model._repr_mimebundle_()["text/html"].startswith("<table>")
    model.choose_thresholds(data.X, rates=[0.1, 0.2, 0.3, 0.4])
    low, high = model.thresholds_.min(), model.thresholds_.max()
    assert f"{low:.3g} to {high:.3g}" in model._repr_html_()


@pytest.mark.parametrize(("key", "params"), [("logistic", {"l2": 1.0}), ("frequency", {})])
def test_methods_without_epochs(data, key, params):
    assert "fitted</caption>" in onepos.make_classifier(key, **params).fit(data.X, data.observed)._repr_html_()


def test_text_display_stays_scikit_learns(data):
    model = onepos.make_classifier("frequency").fit(data.X, data.observed)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]


def test_models_of_tables():
    assert "not trained" in TableModel()._repr_html_()
    photos = photo_table(60)
    photos["tag"] = photos["tag"].replace("beach", NASTY)
    model = TableModel(text="caption", drop=["id", "tags"], method="logistic", random_state=0).fit(photos, label="tag")
    shown = model._repr_html_()
    assert NASTY not in shown
    assert "logistic" in shown
    assert f"{model.facts_['training_rows']} trained on" in shown

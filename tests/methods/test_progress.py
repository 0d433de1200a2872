"""Every ``fit`` tells one listener how far it is."""

import inspect
import warnings

import pytest

from method_kinds import long_for_others
from onepos.datasets import make_known_posterior
from onepos.methods.registry import make_classifier
from onepos.training import progress_to

DATA = make_known_posterior(120, 5, 4, random_state=0)
SETTINGS = {"auto": {"methods": ("logistic", "softmax"), "time_budget": None, "n_folds": 2}, "forest": {"n_trees": 10}}
#: They take no time, or solve a small problem at once.
SILENT = {"frequency"}


@pytest.mark.parametrize("key", long_for_others())
def test_progress_never_goes_back_and_ends_with_the_work(key):
    told = []
    model = make_classifier(key, random_state=0, **SETTINGS.get(key, {}))
    if "max_epochs" in inspect.signature(type(model)).parameters:
        model.set_params(max_epochs=2)
    with progress_to(lambda step, share: told.append((step, share))), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(DATA.X, DATA.Y if model._y_is_full else DATA.observed)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert all(step and 0 <= share <= 1 for step, share in told)
    assert (key in SILENT) == (not told)
    if told:
        assert shares[-1] == 1


def test_nobody_is_told_outside():
    told = []
    with progress_to(lambda step, share: told.append(share)):
        pass
    make_classifier("logistic").fit(DATA.X, DATA.observed)
    assert not told

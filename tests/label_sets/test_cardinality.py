import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from onepos.label_sets.cardinality import balanced_weight, default_n_positives, resolve_n_positives


@pytest.mark.parametrize("m", [1.0, 1.5, 3.0, 20.0])
def test_balanced_weight_puts_even_odds_at_one_half(m):
    """A label with p = ½ is observed with probability ½/m; the weighted loss must be least at d = ½."""
    seen, weight = 0.5 / m, balanced_weight(m)
    result = minimize_scalar(
        lambda d: -seen * np.log(d) - weight * (1 - seen) * np.log(1 - d), bounds=(1e-6, 1 - 1e-6), method="bounded"
    )
    assert result.x == pytest.approx(0.5, abs=1e-4)


def test_sources_in_order_given_validation_default():
    full = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=np.int8)
    assert resolve_n_positives(1.7, 3, full) == (1.7, "given")
    assert resolve_n_positives(None, 3, full) == (2.5, "validation")
    assert resolve_n_positives(None, 3) == (2.0, "default")
    assert resolve_n_positives(None, 3, full, one_class=True) == (1.0, "one class")
    assert resolve_n_positives(1.7, 3, one_class=True) == (1.7, "given")


def test_default_rule():
    assert default_n_positives(2) == 1.5
    assert default_n_positives(100) == 2.0


@pytest.mark.parametrize("bad", [0.5, 4.0])
def test_impossible_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="between 1 and 3"):
        resolve_n_positives(bad, 3)

"""The ridge ε by generalised cross-validation of ridge regression, D2ML without its rank terms."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.methods._d2ml_problem import as_dense, gram_of

#: ε is sought between these parts of the centred features' mean squared column length, four values a decade.
_LOWEST, _HIGHEST, _PER_DECADE = 1e-4, 1e3, 4


def cross_validated_ridge(features: Any, positive: NDArray[np.bool_]) -> float:
    """Return the ε that minimises GCV(ε) = RSS(ε) / (1 − df(ε)/n)² for targets ±1 and free intercepts.

    With H the smoother of ridge regression, df = tr H; GCV is the mean squared leave-one-out error with all leverages
    set to their mean (Golub, Heath, Wahba 1979). Everything comes from the eigenvalues of the centred XᵀX, so all ε
    together cost no more than one. No row needs to be held out, which matters where a row shows one label.

    Parameters
    ----------
    features : dense or CSR array of shape (n_samples, n_features), float64
    positive : bool array of shape (n_samples, n_labels)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> noise, signal = rng.random((200, 1)) < 0.5, X[:, :1] > 0
    >>> bool(cross_validated_ridge(X, noise) > cross_validated_ridge(X, signal))
    True
    """
    n = features.shape[0]
    mean = np.asarray(features.mean(axis=0)).ravel()
    rate = positive.mean(axis=0)
    gram = gram_of(features)
    values, vectors = np.linalg.eigh(gram - n * np.outer(mean, mean))
    values = np.maximum(values, 0.0)
    pulled = as_dense(features.T @ sparse.csr_array(positive, dtype=np.float64)) - n * np.outer(mean, rate)
    power = 4.0 * ((vectors.T @ pulled) ** 2).sum(axis=1)  # Σ over labels of (v_jᵀXᵀY)², Y = ±1 centred
    total = 4.0 * n * float((rate * (1.0 - rate)).sum())
    unit = float(values.mean())
    if unit <= 1e-12 * np.trace(gram):  # constant features, up to rounding: nothing to shrink
        return 1.0
    decades = np.log10(_HIGHEST / _LOWEST)
    candidates = unit * _LOWEST * 10.0 ** np.linspace(0.0, decades, round(decades * _PER_DECADE) + 1)
    scores = [_criterion(ridge, values, power, total, n) for ridge in candidates]
    return float(candidates[int(np.argmin(scores))])


def _criterion(
    ridge: float, values: NDArray[np.float64], power: NDArray[np.float64], total: float, n_samples: int
) -> float:
    """GCV(ε); the intercept is one degree of freedom."""
    residual = total - float((power * (values + 2.0 * ridge) / (values + ridge) ** 2).sum())
    freedom = 1.0 + float((values / (values + ridge)).sum())
    return residual / max(1.0 - freedom / n_samples, 1e-12) ** 2

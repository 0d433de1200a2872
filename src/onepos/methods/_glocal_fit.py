"""GLOCAL's alternating minimisation: warm-up without correlations, then Z_m → V → U → W until nothing changes."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from onepos.methods._glocal_latent import latent_step
from onepos.methods._glocal_model import Coefficients, Design, Factors, normalise, objective
from onepos.methods._glocal_steps import correlation_step, label_step, unit_rows, weight_step
from onepos.methods._weighted_labels import WeightedLabels
from onepos.training import History

_STALL = 3  # iterations over which the objective has to change
_INNER_TOLERANCE = 1e-9


class Schedule(NamedTuple):
    """Limits: iterations without correlations, with them, of each Z_m step, and the relative change to stop at."""

    warm_up_iter: int
    max_iter: int
    correlation_iter: int
    tolerance: float


def fit_glocal(
    features: Any,
    targets: WeightedLabels,
    raw: Coefficients,
    *,
    rank: int,
    correlation_rank: int,
    groups: list[NDArray[np.intp]],
    schedule: Schedule,
    generator: np.random.Generator,
) -> tuple[Factors, History]:
    """Minimise GLOCAL's objective from U, V, Z ~ U(0, 1) and W = 0.

    Parameters
    ----------
    features : float64 array or CSR of shape (n_samples, n_features)
        X, with its column of ones if an intercept is wanted.
    targets : WeightedLabels
        Y and J.
    raw : Coefficients
        λ … λ₅ before normalisation.
    rank, correlation_rank : int
        k and k₂.
    groups : list of int arrays
        Rows of each group, disjoint and together all rows.
    """
    design = Design(features, groups)
    coefficients = normalise(raw, targets, design.n_features, rank, len(groups))
    n_labels = targets.shape[1]
    start = generator.random((n_labels, rank)), generator.random((design.n_samples, rank))
    z = tuple(generator.random((n_labels, correlation_rank)) for _ in groups)
    factors = Factors(start[1], start[0], np.zeros((design.n_features, rank)), tuple(unit_rows(m, m) for m in z))
    spectrum = None if design.gram is None else _spectrum(design.gram)
    history = History()
    correlated = bool(coefficients.local or coefficients.overall)
    bare = coefficients._replace(local=0.0, overall=0.0)
    phases = [(bare, schedule.warm_up_iter)]
    phases += [(coefficients, schedule.max_iter)] if correlated else [(bare, schedule.max_iter)]
    for phase, (current, limit) in enumerate(phases):
        values: list[float] = []
        for _ in range(limit):
            factors = _sweep(design, targets, current, factors, spectrum, schedule.correlation_iter)
            values.append(objective(design, targets, current, factors))
            history.append({"objective": values[-1], "warm_up": float(phase == 0)})
            if _stalled(values, schedule.tolerance):
                break
        converged = _stalled(values, schedule.tolerance)
        if converged and phase == 0 and not correlated:
            break
    history.facts["stopped"] = "converged" if converged else "max_iter"
    return factors, history


def _sweep(
    design: Design,
    targets: WeightedLabels,
    coefficients: Coefficients,
    factors: Factors,
    spectrum: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    correlation_iter: int,
) -> Factors:
    if coefficients.local or coefficients.overall:
        mixtures = design.mixtures(factors.weights, coefficients)
        moved = tuple(
            correlation_step(mixture, factors.labels, z, correlation_iter, 1e-6)
            for mixture, z in zip(mixtures, factors.correlations, strict=True)
        )
        factors = factors._replace(correlations=moved)
    factors = factors._replace(latent=latent_step(design, targets, coefficients, factors))
    factors = factors._replace(labels=label_step(design, targets, coefficients, factors, _INNER_TOLERANCE))
    return factors._replace(weights=weight_step(design, coefficients, factors, spectrum, _INNER_TOLERANCE))


def _stalled(values: list[float], tolerance: float) -> bool:
    return len(values) > _STALL and abs(values[-1 - _STALL] - values[-1]) <= tolerance * abs(values[-1])


def _spectrum(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values, vectors = np.linalg.eigh(gram)
    return np.maximum(values, 0.0), vectors


def group_rows(features: Any, n_groups: int, generator: np.random.Generator) -> list[NDArray[np.intp]]:
    """Split rows into groups by k-means; fewer groups where the data have fewer distinct rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    n_groups = min(n_groups, features.shape[0])
    if n_groups == 1:
        return [np.arange(features.shape[0])]
    if sparse.issparse(features):  # KMeans takes 32-bit indices only
        parts = features.data, features.indices.astype(np.int32), features.indptr.astype(np.int32)
        features = sparse.csr_array(parts, shape=features.shape)
    kmeans = KMeans(n_groups, n_init=1, max_iter=100, random_state=int(generator.integers(2**31 - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assigned = kmeans.fit_predict(features)
    groups = [np.flatnonzero(assigned == m) for m in range(n_groups)]
    return [rows for rows in groups if len(rows)]

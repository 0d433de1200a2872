"""Kernel least squares on the observed label, with closed-form leave-one-out scores."""

import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, eigh, solve_triangular

from onepos._utils import storage
from onepos._utils.context import tell, time_left
from onepos._utils.parameters import COUNT, POSITIVE, Constraints, one_of
from onepos._utils.validation import all_or_nothing, numpy_generator
from onepos.methods._base import SharesClassifier
from onepos.rows.scaling import FeatureScaler, fit_scaler
from onepos.rows.splits import first_alike

#: Share of the observed frequencies that is added to every prediction: least squares gives many labels zero and less.
PRIOR_SHARE = 0.1
#: What the ridge is chosen from.
RIDGES = tuple(0.03 * 10 ** (step / 2) for step in range(9))
#: Rows that choose the width of the kernel.
_ROWS_FOR_WIDTH = 1000
#: Rows per block when kernels are computed.
_BLOCK = 4096
#: Features beyond are cut: in 32 bits their squares would overflow.
_FARTHEST = 1e15


class _KernelProblem(NamedTuple):
    rows: Any  # (n, q)
    positives: NDArray[np.float32]  # observed labels (n, c)
    frequency: NDArray[np.float64]  # of the labels (c,)
    landmarks: NDArray[np.float32]  # (m, q)
    unit: float  # of squared distances
    alike: NDArray[np.intp] | None = None  # number of the thing of each row (n,), if rows repeat


class _KernelSolution(NamedTuple):
    ridge: float
    weights: NDArray[np.float32]  # (m, c)
    left_out: NDArray[np.float32]  # log of the leave-one-out shares (n, c)
    likelihood: float  # that these reach


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(SharesClassifier):
    """Kernel ridge regression on the observed label. Key: ``kernel``.

    A Gaussian kernel compares each row with ``n_landmarks`` training rows (Nyström's method; with fewer rows all of
    them are used and the method is exact). Least squares on the observed labels estimates P(observed = j | x). The
    leave-one-out predictions have a closed form, so that width and ridge are chosen by the likelihood of all observed
    labels without a held-out set.

    Parameters
    ----------
    width : float or "auto"
        The kernel is exp(−width · ‖x−x'‖² / median squared distance). "auto" climbs from 1 in steps of factor 2.
    ridge : float or "auto"
        Ridge λ; "auto" chooses from 0.03 to 300.
    n_landmarks : int
        Most rows that others are compared with. The cost grows with n · n_landmarks².
    n_positives, at_least_one, scale, random_state
        As in ``NeuralClassifier``. ``n_positives`` also sets the level of the probabilities, not the ranking.

    Attributes
    ----------
    gamma_, ridge_ : float
        Chosen factor of the squared distance, and ridge.
    left_out_ : float32 array of shape (n_samples, n_labels)
        Log of the leave-one-out estimates of P(observed = j | x) for the training rows that have a label. Not stored.

    Examples
    --------
    >>> from onepos import KernelClassifier
    >>> from onepos.datasets import make_known_posterior
    >>> data = make_known_posterior(300, 5, 4, random_state=0)
    >>> model = KernelClassifier(random_state=0).fit(data.X, data.observed)
    >>> model.predict_proba(data.X).shape
    (300, 4)
    """

    _no_graph: ClassVar[str] = "compares rows with its landmarks at prediction, which onepos cannot write as a graph"

    _stored: ClassVar[storage.Rules] = {
        "scaler_": storage.Part(FeatureScaler),
        "landmarks_": storage.Array("landmarks features"),
        "weights_": storage.Array("landmarks labels"),
        "frequency_": storage.Array("labels", "f8", storage.TINY, 1),
        "gamma_": storage.POSITIVE,
        "ridge_": storage.POSITIVE,
    }

    width: float | str = "auto"
    ridge: float | str = "auto"
    n_landmarks: int = 2000
    scale: str = "auto"
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {
        **SharesClassifier._parameter_constraints,
        "width": [one_of("auto"), POSITIVE],
        "ridge": [one_of("auto"), POSITIVE],
        "n_landmarks": [COUNT],
    }

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, *, validation: tuple[Any, Any] | None = None, validation_labels: str = "single"
    ) -> Self:
        """Fit on observed labels; ``validation`` only tells the number of positives, if its labels are complete."""
        X, labels, _ = self._begin(X, y, validation, validation_labels)
        kept = np.flatnonzero(labels.labelled)
        positives = (labels.observed[kept] > 0).astype(np.float32)
        frequency = (positives.sum(axis=0, dtype=np.float64) + 0.5) / (positives.sum() + 0.5 * positives.shape[1])
        scaler = fit_scaler(X, self.scale)
        rows = scaler.transform(X)[kept]
        generator = numpy_generator(self.random_state)
        chosen = np.sort(generator.choice(len(kept), min(self.n_landmarks, len(kept)), replace=False))
        landmarks = _dense(rows[chosen])
        unit = _median_distance(landmarks, generator)
        alike = first_alike(X)
        problem = _KernelProblem(rows, positives, frequency, landmarks, unit, None if alike is None else alike[kept])
        ridges = RIDGES if isinstance(self.ridge, str) else (float(self.ridge),)
        tell(0.1)
        if isinstance(self.width, str):  # some rows tell the width well enough
            few = np.sort(generator.choice(len(kept), min(_ROWS_FOR_WIDTH, len(kept)), replace=False))
            some, things = _dense(rows[few]), None if problem.alike is None else problem.alike[few]
            fewer = problem._replace(rows=some, positives=positives[few], landmarks=some, alike=things)
            width = _likeliest_width(fewer, ridges)
        else:
            width = float(self.width)
        tell(0.4)
        best = _solve(problem, width, ridges)
        self.landmarks_, self.weights_, self.frequency_ = landmarks, best.weights, frequency
        self.gamma_, self.ridge_, self.scaler_ = width / unit, best.ridge, scaler
        self.left_out_ = best.left_out
        self._cut_at(self._marginal(best.left_out.astype(np.float64)), rows="rows left out one by one")
        tell(1.0)
        return self

    def _log_shares(self, X: Any) -> NDArray[np.float64]:
        rows = self.scaler_.transform(X)
        shares = np.empty((rows.shape[0], len(self.frequency_)))
        # float64 at prediction: the result must not depend on which other rows share the block.
        landmarks = self.landmarks_.astype(np.float64)
        for start in range(0, rows.shape[0], _BLOCK):
            block = _dense(rows[start : start + _BLOCK]).astype(np.float64)
            shares[start : start + _BLOCK] = _gaussian(block, landmarks, self.gamma_) @ self.weights_
        return log_shares(shares + self.frequency_, self.frequency_)


def log_shares(shares: NDArray[Any], frequency: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of estimates of P(observed = j | x), negative ones cut, a part of the frequencies added, normalised."""
    smooth = np.maximum(shares, 0.0) + PRIOR_SHARE * frequency
    return np.asarray(np.log(smooth / smooth.sum(axis=1, keepdims=True)))


def _likeliest_width(problem: _KernelProblem, ridges: tuple[float, ...]) -> float:
    """Return the likeliest width: climb from 1, first up, then down, while the likelihood rises and time is left."""
    started = time.monotonic()
    width, best = 1.0, _solve(problem, 1.0, ridges).likelihood
    seconds = time.monotonic() - started
    for factor in (2.0, 0.5):
        following = factor
        while 1 / 16 <= following <= 16 and time_left() > 2 * seconds:
            likelihood = _solve(problem, following, ridges).likelihood
            if likelihood <= best:
                break
            width, best, following = following, likelihood, following * factor
        if width > 1.0:  # one peak: what rose upwards does not rise downwards
            break
    return width


def _solve(problem: _KernelProblem, width: float, ridges: tuple[float, ...]) -> _KernelSolution:
    """Return the likeliest fit of one width; all ridges share one eigendecomposition."""
    rows, positives, frequency, landmarks, unit, alike = problem
    _, thing, size = np.unique(
        np.arange(rows.shape[0]) if alike is None else alike, return_inverse=True, return_counts=True
    )
    targets = (positives / positives.sum(axis=1, keepdims=True) - frequency).astype(np.float32)
    n, m, gamma = rows.shape[0], len(landmarks), width / unit
    # Φ = K_nm R⁻ᵀ with K_mm = R Rᵀ: then Φ Φᵀ is Nyström's kernel, and exact if every row is a landmark.
    root = cholesky(_gaussian(landmarks, landmarks, gamma).astype(np.float64) + 1e-4 * np.eye(m), lower=True)
    root = root.astype(np.float32)
    phi = np.empty((n, m), dtype=np.float32)
    for start in range(0, n, _BLOCK):
        kernel = _gaussian(_dense(rows[start : start + _BLOCK]), landmarks, gamma)
        phi[start : start + _BLOCK] = solve_triangular(root, kernel.T, lower=True, check_finite=False).T
    values, vectors = eigh(phi.T @ phi, driver="evd", overwrite_a=True, check_finite=False)
    values = np.maximum(values, 0.0)
    phi = phi @ vectors
    projected = phi.T @ targets
    squares = phi * phi
    seen = positives > 0
    # Frequencies of the labels of all other things: a row must not be told its own label.
    rows_alike = size[thing].astype(np.float32)[:, None]
    others = np.maximum(frequency - _sums(targets, thing, size) / np.maximum(n - rows_alike, 1), 0.25 / n)
    best: _KernelSolution | None = None
    for ridge in ridges:
        shrunk = (1.0 / (values + ridge)).astype(np.float32)[:, None] * projected
        leverage = squares @ (1.0 / (values + ridge)).astype(np.float32)
        # Without a row of leverage h, its residual r of least squares is r/(1 − h). Without all m rows of its thing,
        # whose residuals have the sum s, it is r + s·h/(1 − m·h).
        residual, share = targets - phi @ shrunk, leverage[:, None]
        left_out = others + targets - residual
        left_out -= _sums(residual, thing, size) * share / np.maximum(1.0 - rows_alike * share, 1e-3)
        shares = log_shares(left_out, others)
        score = float(np.mean(shares[seen]))
        if best is None or score > best.likelihood:
            best = _KernelSolution(ridge, shrunk, shares.astype(np.float32), score)
    assert best is not None
    weights = solve_triangular(root, vectors @ best.weights, lower=True, trans="T")
    return best._replace(weights=np.ascontiguousarray(weights, dtype=np.float32))  # as a stored model has them


def _sums(values: NDArray[Any], thing: NDArray[np.intp], size: NDArray[np.intp]) -> NDArray[Any]:
    """Return for each row the sum over the rows of its thing."""
    if len(size) == len(thing):
        return values
    member = sparse.csr_array((np.ones(len(thing), values.dtype), thing, np.arange(len(thing) + 1)))
    return np.asarray((member.T @ values)[thing])


def _gaussian(a: NDArray[Any], b: NDArray[Any], gamma: float) -> NDArray[Any]:
    """exp(−γ‖a−b‖²), shape (len(a), len(b)), in the numbers of a and b."""
    distance = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    np.exp(-gamma * np.maximum(distance, 0.0, out=distance), out=distance)
    return np.asarray(distance)


def _median_distance(landmarks: NDArray[np.float32], generator: np.random.Generator) -> float:
    """Median squared distance of pairs of rows; 1 if all rows are equal."""
    first, second = generator.integers(len(landmarks), size=(2, 2000))
    distance = ((landmarks[first] - landmarks[second]) ** 2).sum(axis=1)
    distance = distance[distance > 1 / _FARTHEST**2]  # its inverse must fit in 32 bits
    return float(np.median(distance)) if len(distance) else 1.0


def _dense(rows: Any) -> NDArray[np.float32]:
    dense = np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float32)
    return np.clip(dense, -_FARTHEST, _FARTHEST)

"""Generated data: pictures with several handwritten digits, and data whose p(y | x) is known exactly."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from onepos._utils.validation import FloatArray, generator
from onepos.datasets._single_positive import make_single_positive

SIDE, _CELL = 8, 10  # height and width of scikit-learn's scans, and of the cell that a digit is in
_TRAIN_SHARE = 2 / 3


def make_digit_scenes(
    n_samples: int = 2000,
    *,
    grid: tuple[int, int] = (2, 2),
    min_digits: int = 1,
    max_digits: int = 4,
    noise: float = 0.05,
    scans: Literal["all", "train", "test"] = "all",
    random_state: Any = None,
) -> Any:
    """Make pictures of several handwritten digits; the labels say which digits are present.

    The digits of a picture are all different and never overlap. Each is an 8×8 scan of scikit-learn's
    ``load_digits``, drawn at random from the scans of its digit.

    Parameters
    ----------
    n_samples : int
    grid : pair of int
        Rows and columns of cells of 10×10 pixels. Each digit is in a cell of its own, shifted by up to one pixel.
    min_digits, max_digits : int
        The number of digits in a picture is uniform between the two.
    noise : float
        Standard deviation of Gaussian noise on every pixel, before clipping to [0, 1].
    scans : {"all", "train", "test"}
        Which scans to use. "train" is the first two thirds of each digit's scans, "test" the rest: scenes
        from the two share no scan, and hardly a writer.
    random_state : None, int, Generator or RandomState

    Returns
    -------
    sklearn.utils.Bunch
        ``X`` float32 in [0, 1], shape (n_samples, height · width); ``images``, a view of X of shape (n_samples, height,
        width); ``Y`` uint8, shape (n_samples, 10); ``label_names`` "0" … "9"; ``feature_names`` "pixel_row_column".

    Examples
    --------
    >>> scenes = make_digit_scenes(100, random_state=0)
    >>> scenes.X.shape, scenes.Y.shape
    ((100, 400), (100, 10))
    """
    from sklearn.datasets import load_digits
    from sklearn.utils import Bunch

    if not (isinstance(n_samples, int | np.integer) and n_samples > 0):
        raise ValueError(f"n_samples must be a whole number above 0; got {n_samples!r}.")
    if not 1 <= min_digits <= max_digits <= 10:
        raise ValueError(
            f"1 <= min_digits <= max_digits <= 10 expected (digits all differ); got {min_digits} and {max_digits}."
        )
    if grid[0] * grid[1] < max_digits:
        raise ValueError(f"a grid of {grid} must have at least {max_digits} cells (max_digits). Enlarge it.")
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise must be a finite number, at least 0; got {noise!r}.")
    rng = generator(random_state)
    n, height, width = int(n_samples), _CELL * grid[0], _CELL * grid[1]
    # The first max_digits places of a random order of the ten digits; a picture uses `counts` of them.
    digits = rng.permuted(np.tile(np.arange(10), (n, 1)), axis=1)[:, :max_digits]
    counts = rng.integers(min_digits, max_digits + 1, size=n)
    used = np.arange(max_digits) < counts[:, None]
    cells = rng.permuted(np.tile(np.arange(grid[0] * grid[1]), (n, 1)), axis=1)[:, :max_digits]
    tops = (cells // grid[1]) * _CELL + rng.integers(0, _CELL - SIDE + 1, size=used.shape)
    lefts = (cells % grid[1]) * _CELL + rng.integers(0, _CELL - SIDE + 1, size=used.shape)
    members = scan_indices(scans)
    sizes = np.array([len(one) for one in members])
    starts = np.cumsum(sizes) - sizes
    scan = np.concatenate(members)[starts[digits] + (rng.random(digits.shape) * sizes[digits]).astype(np.intp)]
    images: NDArray[np.float32] = np.zeros((n, height, width), dtype=np.float32)
    pixels = np.arange(SIDE)
    rows, places = np.nonzero(used)
    top, left = tops[rows, places][:, None, None], lefts[rows, places][:, None, None]
    pictures = (load_digits().images / 16.0).astype(np.float32)
    images[rows[:, None, None], top + pixels[:, None], left + pixels] = pictures[scan[rows, places]]
    if noise:
        images += rng.normal(scale=noise, size=images.shape).astype(np.float32)
        np.clip(images, 0.0, 1.0, out=images)
    Y: NDArray[np.uint8] = np.zeros((n, 10), dtype=np.uint8)
    Y[rows, digits[rows, places]] = 1
    return Bunch(
        X=images.reshape(n, -1),
        Y=Y,
        images=images,
        label_names=[str(digit) for digit in range(10)],
        feature_names=[f"pixel_{row}_{column}" for row in range(height) for column in range(width)],
    )


def scan_indices(scans: str) -> list[NDArray[np.intp]]:
    """Return, per digit, which of ``load_digits``' scans belong to "all", "train" or "test"."""
    from sklearn.datasets import load_digits

    if scans not in ("all", "train", "test"):
        raise ValueError(f"scans must be 'all', 'train' or 'test'; got {scans!r}.")
    target = load_digits().target
    parts = []
    for digit in range(10):
        # The scans are in the order of their writers, so cutting by position also separates writers.
        members = np.flatnonzero(target == digit)
        cut = round(len(members) * _TRAIN_SHARE)
        parts.append({"all": members, "train": members[:cut], "test": members[cut:]}[scans])
    return parts


def make_known_posterior(
    n_samples: int = 1000,
    n_features: int = 20,
    n_labels: int = 10,
    *,
    n_positives: float = 2.0,
    signal: float = 2.0,
    random_state: Any = None,
) -> Any:
    """Make data from a model in which every label's probability is known.

    Features are standard normal. Given x, labels are independent, label j with probability p_j(x) = sigmoid(w_j · x +
    b_j), but that at least one is positive. Their marginals are then p_j / (1 − Π_k (1 − p_k)), which is the
    ``posterior`` returned. w_j is drawn with length about ``signal``, b_j varies from label to label, and one shift of
    all b_j is calibrated on the drawn X so that a row has ``n_positives`` positives on average.

    Parameters
    ----------
    n_samples, n_features, n_labels : int
    n_positives : float
        Mean number of positives per row, above 1 and below ``n_labels``.
    signal : float
        Standard deviation of w_j · x: how much the features tell.
    random_state : None, int, Generator or RandomState

    Returns
    -------
    sklearn.utils.Bunch
        ``X`` float32 (n_samples, n_features); ``Y`` uint8 (n_samples, n_labels), all labels; ``observed``
        uint8 (n_samples, n_labels), one positive per row, uniform among them; ``posterior`` float64
        (n_samples, n_labels), P(Y_ij = 1 | x_i); ``probabilities`` float64, p_j(x_i) before conditioning;
        ``weights`` float64 (n_labels, n_features) and ``intercepts`` float64 (n_labels,).
    """
    from sklearn.utils import Bunch

    for name, value in (("n_samples", n_samples), ("n_features", n_features), ("n_labels", n_labels)):
        if not (isinstance(value, int | np.integer) and value > 0):
            raise ValueError(f"{name} must be a whole number above 0; got {value!r}.")
    if not 1 < n_positives < n_labels:
        raise ValueError(f"n_positives must lie between 1 and n_labels={n_labels}, both excluded; got {n_positives!r}.")
    if not (np.isfinite(signal) and signal >= 0):
        raise ValueError(f"signal must be a finite number, at least 0; got {signal!r}.")
    rng = generator(random_state)
    # Rounded to float32 first, so that the posterior is that of the X handed out.
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    weights = rng.standard_normal((n_labels, n_features)) * (signal / np.sqrt(n_features))
    logits = X.astype(np.float64) @ weights.T
    offsets = rng.standard_normal(n_labels)

    low, high = -50.0, 50.0  # the mean rises with the shift: bisection
    for _ in range(60):
        middle = (low + high) / 2
        mean = float(_conditional(expit(logits + offsets + middle)).sum(axis=1).mean())
        low, high = (middle, high) if mean < n_positives else (low, middle)
    intercepts = offsets + (low + high) / 2
    probabilities: NDArray[np.float64] = np.asarray(expit(logits + intercepts), dtype=np.float64)
    Y = _draw_nonempty(rng, probabilities)
    return Bunch(
        X=X,
        Y=Y,
        observed=make_single_positive(Y, random_state=rng),
        posterior=_conditional(probabilities),
        probabilities=probabilities,
        weights=weights,
        intercepts=intercepts,
    )


def _conditional(p: FloatArray) -> NDArray[np.float64]:
    """Return P(Y_j = 1 | at least one positive) for independent labels, shape as ``p``."""
    nonempty = -np.expm1(np.log1p(-_below_one(p)).sum(axis=1, keepdims=True))
    return np.asarray(p / nonempty, dtype=np.float64)


def _draw_nonempty(rng: np.random.Generator, p: FloatArray) -> NDArray[np.uint8]:
    """Draw label vectors conditioned on a positive, exactly and without rejection.

    The first positive is label j with probability p_j Π_{k<j} (1 − p_k) / (1 − Π_k (1 − p_k)); the labels
    behind it are independent as before. Rejection would need 1/P(nonempty) rounds, which has no bound.
    """
    none_before = np.concatenate([np.zeros((len(p), 1)), np.cumsum(np.log1p(-_below_one(p)), axis=1)], axis=1)
    cumulative = -np.expm1(none_before[:, 1:])  # P(a positive among the first j)
    position = rng.random((len(p), 1)) * cumulative[:, -1:]
    first = np.minimum((cumulative <= position).sum(axis=1), p.shape[1] - 1)
    Y = (rng.random(p.shape) < p).astype(np.uint8)
    columns = np.arange(p.shape[1])
    Y[columns < first[:, None]] = 0
    Y[np.arange(len(p)), first] = 1
    return Y


def _below_one(p: FloatArray) -> FloatArray:
    """Keep log(1 − p) finite where the sigmoid has rounded to 1."""
    return np.minimum(p, 1 - 1e-16)

"""The embedded data: pictures with several handwritten digits, from scikit-learn's bundled scans."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onepos._utils.random import generator

SIDE = 8  # height and width of scikit-learn's scans
_ROUNDS = 2000

Positions = tuple[NDArray[np.intp], NDArray[np.intp]]


def place(
    rng: np.random.Generator,
    used: NDArray[np.bool_],
    layout: str,
    grid: tuple[int, int],
    image_shape: tuple[int, int],
) -> Positions:
    """Return the top and left pixel of each digit, each of shape (n_scenes, n_places).

    Parameters
    ----------
    rng : Generator
    used : bool array of shape (n_scenes, n_places)
        Which places of each scene hold a digit; in each row the first ones.
    layout : {"grid", "free"}
    grid : pair of int
    image_shape : pair of int
    """
    if layout == "grid":
        return _on_grid(rng, used, grid, image_shape)
    if layout == "free":
        return _anywhere(rng, used, image_shape)
    raise ValueError(f"layout must be 'grid' or 'free'; got {layout!r}.")


def _on_grid(
    rng: np.random.Generator, used: NDArray[np.bool_], grid: tuple[int, int], image_shape: tuple[int, int]
) -> Positions:
    n, places = used.shape
    cell_height, cell_width = image_shape[0] // grid[0], image_shape[1] // grid[1]
    if min(cell_height, cell_width) < SIDE or grid[0] * grid[1] < places:
        raise ValueError(
            f"a grid of {grid} on a canvas of {image_shape} pixels must have at least {places} cells "
            f"(max_digits) of at least {SIDE}×{SIDE} pixels; it has {grid[0] * grid[1]} of "
            f"{cell_height}×{cell_width}. Enlarge grid or image_shape, or lower max_digits."
        )
    cells = rng.permuted(np.tile(np.arange(grid[0] * grid[1]), (n, 1)), axis=1)[:, :places]
    tops = (cells // grid[1]) * cell_height + rng.integers(0, cell_height - SIDE + 1, size=used.shape)
    lefts = (cells % grid[1]) * cell_width + rng.integers(0, cell_width - SIDE + 1, size=used.shape)
    return tops, lefts


def _anywhere(rng: np.random.Generator, used: NDArray[np.bool_], image_shape: tuple[int, int]) -> Positions:
    """Draw all positions of a scene anew until none overlap: uniform over the arrangements that fit."""
    n, places = used.shape
    if min(image_shape) < SIDE:
        raise ValueError(f"image_shape must be at least {SIDE}×{SIDE} pixels; got {image_shape}.")
    tops: NDArray[np.intp] = np.zeros((n, places), dtype=np.intp)
    lefts: NDArray[np.intp] = np.zeros((n, places), dtype=np.intp)
    pending = np.arange(n)
    first, second = np.triu_indices(places, k=1)
    for _ in range(_ROUNDS):
        shape = (len(pending), places)
        tops[pending] = rng.integers(0, image_shape[0] - SIDE + 1, size=shape)
        lefts[pending] = rng.integers(0, image_shape[1] - SIDE + 1, size=shape)
        top, left, there = tops[pending], lefts[pending], used[pending]
        apart = (np.abs(top[:, first] - top[:, second]) >= SIDE) | (np.abs(left[:, first] - left[:, second]) >= SIDE)
        fits = (apart | ~(there[:, first] & there[:, second])).all(axis=1)
        pending = pending[~fits]
        if not len(pending):
            return tops, lefts
    raise ValueError(
        f"{places} digits of {SIDE}×{SIDE} pixels hardly fit on a canvas of {image_shape} without overlap. "
        "Enlarge image_shape or lower max_digits."
    )


_TRAIN_SHARE = 2 / 3


def make_digit_scenes(
    n_samples: int = 2000,
    *,
    layout: Literal["grid", "free"] = "grid",
    grid: tuple[int, int] = (2, 2),
    image_shape: tuple[int, int] | None = None,
    min_digits: int = 1,
    max_digits: int = 4,
    noise: float = 0.05,
    scans: Literal["all", "train", "test"] = "all",
    random_state: Any = None,
    return_X_y: bool = False,
) -> Any:
    """Make pictures of several handwritten digits; the labels say which digits are present.

    The digits of a picture are all different and never overlap. Each is an 8×8 scan of scikit-learn's
    ``load_digits``, drawn at random from the scans of its digit.

    Parameters
    ----------
    n_samples : int, default=2000
    layout : {"grid", "free"}, default="grid"
        "grid": each digit in a cell of its own, shifted at random inside it. "free": anywhere on the
        canvas, which is much harder to learn without convolutions.
    grid : pair of int, default=(2, 2)
        Rows and columns of cells, for "grid" only.
    image_shape : pair of int, optional
        Height and width in pixels; default 10 per cell for "grid" (so a digit moves by ±1), (28, 28) for
        "free".
    min_digits, max_digits : int, default=1 and 4
        The number of digits in a picture is uniform between the two.
    noise : float, default=0.05
        Standard deviation of Gaussian noise on every pixel, before clipping to [0, 1].
    scans : {"all", "train", "test"}, default="all"
        Which scans to use. "train" is the first two thirds of each digit's scans, "test" the rest: scenes
        from the two share no scan, and hardly a writer.
    random_state : None, int, Generator or RandomState
    return_X_y : bool, default=False
        Return ``(X, Y)`` instead of a Bunch.

    Returns
    -------
    sklearn.utils.Bunch
        ``X`` float32 in [0, 1], shape (n_samples, height · width); ``Y`` uint8, shape (n_samples, 10);
        ``images`` float32, shape (n_samples, height, width), a view of X; ``label_names`` "0" … "9";
        ``feature_names`` "pixel_row_column".

    Examples
    --------
    >>> from onepos.datasets import make_digit_scenes
    >>> scenes = make_digit_scenes(100, random_state=0)
    >>> scenes.X.shape, scenes.Y.shape
    ((100, 400), (100, 10))
    """
    from sklearn.utils import Bunch

    if image_shape is None:
        image_shape = (10 * grid[0], 10 * grid[1]) if layout == "grid" else (28, 28)
    if not (isinstance(n_samples, int | np.integer) and n_samples > 0):
        raise ValueError(f"n_samples must be a whole number above 0; got {n_samples!r}.")
    if not 1 <= min_digits <= max_digits <= 10:
        raise ValueError(
            f"1 <= min_digits <= max_digits <= 10 expected (digits of a picture differ); got {min_digits} "
            f"and {max_digits}."
        )
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise must be a finite number, at least 0; got {noise!r}.")
    rng = generator(random_state)
    n = int(n_samples)
    # The first max_digits places of a random order of the ten digits; a picture uses `counts` of them.
    digits = rng.permuted(np.tile(np.arange(10), (n, 1)), axis=1)[:, :max_digits]
    counts = rng.integers(min_digits, max_digits + 1, size=n)
    used = np.arange(max_digits) < counts[:, None]
    tops, lefts = place(rng, used, layout, grid, image_shape)
    images = _draw(rng, digits, used, tops, lefts, image_shape, scans)
    if noise:
        images += rng.normal(scale=noise, size=images.shape).astype(np.float32)
        np.clip(images, 0.0, 1.0, out=images)
    Y: NDArray[np.uint8] = np.zeros((n, 10), dtype=np.uint8)
    rows, places = np.nonzero(used)
    Y[rows, digits[rows, places]] = 1
    X = images.reshape(n, -1)
    if return_X_y:
        return X, Y
    height, width = image_shape
    return Bunch(
        X=X,
        Y=Y,
        images=images,
        label_names=[str(digit) for digit in range(10)],
        feature_names=[f"pixel_{row}_{column}" for row in range(height) for column in range(width)],
    )


def scan_indices(scans: str) -> list[NDArray[np.intp]]:
    """Return, per digit, which of ``load_digits``' scans belong to the named part.

    Parameters
    ----------
    scans : {"all", "train", "test"}
    """
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


def _draw(
    rng: np.random.Generator,
    digits: NDArray[np.intp],
    used: NDArray[np.bool_],
    tops: NDArray[np.intp],
    lefts: NDArray[np.intp],
    image_shape: tuple[int, int],
    scans: str,
) -> NDArray[np.float32]:
    from sklearn.datasets import load_digits

    pictures = (load_digits().images / 16.0).astype(np.float32)
    members = scan_indices(scans)
    sizes = np.array([len(part) for part in members])
    starts = np.cumsum(sizes) - sizes
    chosen = starts[digits] + (rng.random(digits.shape) * sizes[digits]).astype(np.intp)
    scan = np.concatenate(members)[chosen]
    images: NDArray[np.float32] = np.zeros((len(digits), *image_shape), dtype=np.float32)
    down, across = np.arange(SIDE)[:, None], np.arange(SIDE)[None, :]
    rows, places = np.nonzero(used)
    top, left = tops[rows, places][:, None, None], lefts[rows, places][:, None, None]
    images[rows[:, None, None], top + down, left + across] = pictures[scan[rows, places]]
    return images

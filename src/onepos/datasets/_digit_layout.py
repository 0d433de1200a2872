"""Where the digits of a scene go: positions on the canvas that never overlap."""

import numpy as np
from numpy.typing import NDArray

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

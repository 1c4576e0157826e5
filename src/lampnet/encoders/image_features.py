"""Numbers of an image that a linear model can read: edges by direction, colours by cell."""

from __future__ import annotations

import numpy as np

DIRECTIONS = 8
COLOUR_STEPS = 4


def gradient_and_colour(images: np.ndarray, patch: int) -> np.ndarray:
    """Directions of the brightness gradient, mean and spread of the colours in each cell, and a colour histogram.

    images uint8 (n, H, W, C) -> float32 (n, F). Small patches are halved into cells of at least 4 pixels.

    >>> gradient_and_colour(np.zeros((2, 24, 24, 1), dtype=np.uint8), 8).shape
    (2, 364)
    """
    n, height, width, channels = images.shape
    cell = _cell_side(patch)
    x = images.astype(np.float32) / 255
    grey = x.mean(axis=3)
    down, across = np.zeros_like(grey), np.zeros_like(grey)
    if height > 2:
        down[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    if width > 2:
        across[:, :, 1:-1] = grey[:, :, 2:] - grey[:, :, :-2]
    strength = np.hypot(down, across)
    # Opposite gradients are one direction: a dark line on light is a light line on dark.
    direction = np.mod(np.arctan2(down, across), np.pi) * np.float32(DIRECTIONS / np.pi)
    lower = direction.astype(np.intp) % DIRECTIONS  # a direction of exactly pi is direction 0
    share = direction - np.floor(direction)
    # A gradient between two directions counts for both, by nearness.
    row, column = _cell_of(height, cell), _cell_of(width, cell)
    cells = (row[-1] + 1) * (column[-1] + 1)
    index = np.arange(n)[:, None, None] * cells + row[:, None] * (column[-1] + 1) + column
    index *= DIRECTIONS
    size = n * cells * DIRECTIONS
    sums = np.bincount((index + lower).ravel(), (strength * (1 - share)).ravel(), size)
    sums = sums + np.bincount((index + (lower + 1) % DIRECTIONS).ravel(), (strength * share).ravel(), size)
    edges = (sums / (cell * cell)).reshape(n, cells, DIRECTIONS)
    # Relative to the cell's own contrast: what shape, not how strong.
    parts = [np.sqrt(edges / (edges.sum(axis=-1, keepdims=True) + 0.02)).reshape(n, -1)]
    for channel in range(channels):
        mean = _by_cell(x[..., channel], cell)
        square = _by_cell(np.square(x[..., channel]), cell)
        parts += [mean.reshape(n, -1), np.sqrt(np.maximum(square - mean**2, 0)).reshape(n, -1)]
    level = (images.astype(np.int64) * COLOUR_STEPS) // 256
    code = level @ (COLOUR_STEPS ** np.arange(channels))
    bins = COLOUR_STEPS**channels
    flat = (np.arange(n)[:, None] * bins + code.reshape(n, -1)).ravel()
    counts = np.bincount(flat, minlength=n * bins).reshape(n, bins)
    parts.append(np.sqrt(counts / (height * width)))
    return np.concatenate(parts, axis=1).astype(np.float32)


def feature_count(height: int, width: int, channels: int, patch: int) -> int:
    """F, the numbers that `gradient_and_colour` gives for an image of this size.

    >>> feature_count(24, 24, 1, 8)
    364
    """
    cell = _cell_side(patch)
    cells = max(1, height // cell) * max(1, width // cell)
    return cells * (DIRECTIONS + 2 * channels) + int(COLOUR_STEPS**channels)


def feature_names(height: int, width: int, channels: int, patch: int) -> list[tuple[str, tuple[int, ...]]]:
    """What the numbers of `gradient_and_colour` are, each with its box (left, top, right, bottom), () for all of it.

    >>> names = feature_names(24, 24, 1, 8)
    >>> names[0], names[-1], len(names)
    (('edges at 0° in cell 0,0', (0, 0, 4, 4)), ('colours 4 of 4', ()), 364)
    """
    cell = _cell_side(patch)
    down, across = max(1, height // cell), max(1, width // cell)
    boxes = [
        (c * cell, r * cell, width if c == across - 1 else (c + 1) * cell, height if r == down - 1 else (r + 1) * cell)
        for r in range(down)
        for c in range(across)
    ]
    cells = [(f"cell {r},{c}", boxes[r * across + c]) for r in range(down) for c in range(across)]
    named: list[tuple[str, tuple[int, ...]]] = [
        (f"edges at {180 * d // DIRECTIONS}° in {where}", box) for where, box in cells for d in range(DIRECTIONS)
    ]
    colours = ("brightness",) if channels == 1 else ("red", "green", "blue")
    for colour in colours:
        for what in (colour, f"spread of {colour}"):
            named += [(f"{what} in {where}", box) for where, box in cells]
    bins = COLOUR_STEPS**channels
    return named + [(f"colours {b + 1} of {bins}", ()) for b in range(bins)]


def _cell_side(patch: int) -> int:
    return patch if patch >= 16 else max(1, min(patch, max(4, patch // 2)))


def _cell_of(pixels: int, cell: int) -> np.ndarray:
    """The cell of each pixel along one side; pixels beyond the last whole cell belong to it."""
    return np.minimum(np.arange(pixels) // cell, max(1, pixels // cell) - 1)


def _by_cell(x: np.ndarray, cell: int) -> np.ndarray:
    """Means of square cells (n, rows, columns)."""
    rows = np.arange(0, max(1, x.shape[1] // cell) * cell, cell)
    columns = np.arange(0, max(1, x.shape[2] // cell) * cell, cell)
    sums = np.add.reduceat(np.add.reduceat(x, rows, axis=1), columns, axis=2)
    area = np.diff(np.append(rows, x.shape[1]))[:, None] * np.diff(np.append(columns, x.shape[2]))
    means: np.ndarray = sums / area
    return means

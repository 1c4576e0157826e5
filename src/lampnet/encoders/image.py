"""Images: square patches are the nodes, with the row and column of each as its position.

Rows are uint8 arrays (H, W) or (H, W, 3), or paths of image files. Training images of one size not above `image_side`
keep it (any one size with `image_side=0`); others are resized to `image_side` squared. A patch is at most a third
of the shorter side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.image_features import feature_count, feature_names, gradient_and_colour
from lampnet.encoders.image_files import decoded, opened_image, pillow
from lampnet.encoders.nodes import NodeBatch, NodeRows, sinusoidal
from lampnet.encoders.restore import saved_array, saved_count
from lampnet.encoders.spectral import node_sample, start_projection
from lampnet.encoders.vector import saved_spread
from lampnet.errors import DataError

#: images decoded together, and the bytes of pixels they may have
CHUNK, CHUNK_BYTES = 32, 1 << 24
#: pixels of the size that images are brought to: more would take gigabytes for a few rows
MAX_PIXELS = 2048 * 2048
#: patches of an image, whatever input.max_nodes allows other kinds of rows
MAX_PATCHES = 4096


class Patches(Embedding):
    """z = W^x (pixels - mean) / spread + sine and cosine of the patch's row and column."""

    mean: Tensor
    spread: Tensor

    def __init__(self, mean: np.ndarray, spread: np.ndarray, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(len(mean), width)
        self.position_weight = nn.Parameter(torch.ones(()))
        # Not saved with the weights: they belong to the encoder.
        self.register_buffer("mean", torch.from_numpy(mean.copy()), persistent=False)
        self.register_buffer("spread", torch.from_numpy(spread.copy()), persistent=False)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        assert batch.vectors_BSF is not None
        assert batch.positions_BSP is not None
        z_BSD = self.projection((batch.vectors_BSF.float() - self.mean) / self.spread)
        positions = sinusoidal(batch.positions_BSP, z_BSD.shape[-1])
        return z_BSD + self.position_weight * positions, batch.present_BS, batch.edge_types_BSS

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """The principal directions of the training patches."""
        assert nodes.vectors is not None
        vectors = (node_sample(nodes.vectors, seed) - self.mean.numpy()) / self.spread.numpy()
        start_projection(self.projection, vectors, seed)
        with torch.no_grad():
            self.position_weight.fill_(0.5)


class ImageEncoder(Encoder):
    """Learns size, colours and the mean and spread of the pixels from the training rows.

    >>> scenes = np.random.default_rng(0).integers(0, 256, (4, 24, 24), dtype=np.uint8)
    >>> encoder = ImageEncoder(InputConfig()).fit(scenes)
    >>> encoder.patch, encoder.encode(scenes).node_names(0)[:4]
    (8, ['patch 0,0', 'patch 0,1', 'patch 0,2', 'patch 1,0'])
    """

    kind = "image"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.height = self.width = self.patch = 0
        self.channels = 1
        self.mean = self.feature_mean = np.zeros(0, dtype=np.float32)
        self.spread = self.feature_spread = np.ones(0, dtype=np.float32)

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> ImageEncoder:
        if len(rows) == 0:
            raise DataError("images were given without any training row; give at least one")
        sizes = {_size(rows[row], row) for row in range(len(rows))}
        self.channels = max(channels for _, _, channels in sizes)
        self.height, self.width = self._chosen_size({(height, width) for height, width, _ in sizes})
        self.patch = _patch_side(self.height, self.width, self.config.patch)
        self._check_size()
        total, square, count = np.zeros(self.channels), np.zeros(self.channels), 0
        features = []
        for images in self._chunks(rows):
            flat = images.reshape(-1, self.channels).astype(np.float64)
            total, square, count = total + flat.sum(0), square + np.square(flat).sum(0), count + len(flat)
            features.append(gradient_and_colour(images, self.patch))
        mean = total / count
        spread = np.sqrt(np.maximum(square / count - mean**2, 0.0))
        # One mean and spread per colour, repeated in the order of a flattened patch.
        pixels = self.patch * self.patch
        self.mean = np.tile(mean, pixels).astype(np.float32)
        self.spread = np.tile(np.where(spread > 1e-3, spread, 1.0), pixels).astype(np.float32)
        whole = np.concatenate(features)
        self.feature_mean = whole.mean(axis=0).astype(np.float32)
        deviation = whole.std(axis=0)
        self.feature_spread = np.where(deviation > 1e-4, deviation, 1.0).astype(np.float32)
        return self

    def parse(self, rows: Any) -> tuple[Any, NodeRows]:
        """The rows as they came, and cut into patches."""
        n, (down, across) = len(rows), self._grid()
        nodes = down * across
        p = self.patch
        vectors = np.empty((n * nodes, p * p * self.channels), dtype=np.uint8)
        first = 0
        for images in self._chunks(rows):
            missing = ((0, 0), (0, down * p - self.height), (0, across * p - self.width), (0, 0))
            images = np.pad(images, missing, mode="edge")
            cut = images.reshape(len(images), down, p, across, p, self.channels).swapaxes(2, 3)
            last = first + len(images) * nodes
            vectors[first:last] = cut.reshape(-1, vectors.shape[1])
            first = last
        grid = np.stack(np.divmod(np.arange(nodes), across), axis=1).astype(np.int32)
        return rows, NodeRows(
            offsets=np.arange(n + 1, dtype=np.int64) * nodes, vectors=vectors, positions=np.tile(grid, (n, 1))
        )

    def nodes_of(self, parsed: tuple[Any, NodeRows]) -> NodeRows:
        return parsed[1]

    def features_of(self, parsed: tuple[Any, NodeRows]) -> np.ndarray:
        """Gradients by direction and colours of the cells, standardised, float32 (n, F)."""
        parts = [gradient_and_colour(images, self.patch) for images in self._joined_patches(parsed[1])]
        whole = np.concatenate([np.zeros((0, len(self.feature_mean)), dtype=np.float32), *parts])
        return ((whole - self.feature_mean) / self.feature_spread).astype(np.float32)

    def embedding(self, width: int) -> Patches:
        return Patches(self.mean, self.spread, width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        down, across = self._grid()
        return [f"patch {r},{c}" for r in range(down) for c in range(across)]

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        """Boxes are in pixels of the original image."""
        height, width, _ = _size(encoded.parsed[0][row], row)
        down, across = self._grid()
        y = [min(height, round(r * self.patch * (height / self.height))) for r in range(down + 1)]
        x = [min(width, round(c * self.patch * (width / self.width))) for c in range(across + 1)]
        return [((x[c], y[r], x[c + 1], y[r + 1]),) for r in range(down) for c in range(across)]

    @property
    def n_features(self) -> int:
        return len(self.feature_mean)

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        named = feature_names(self.height, self.width, self.channels, self.patch)
        return [NamedFeature(named[column][0]) for column in columns]

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        """Boxes are in pixels of the original image."""
        height, width, _ = _size(encoded.parsed[0][row], row)
        scale = (width / self.width, height / self.height) * 2
        named = feature_names(self.height, self.width, self.channels, self.patch)
        boxes = [tuple(round(side * by) for side, by in zip(named[c][1], scale, strict=False)) for c in columns]
        return [
            NamedFeature(named[column][0], places=(box,) if box else ())
            for column, box in zip(columns, boxes, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        return {"height": self.height, "width": self.width, "patch": self.patch, "channels": self.channels}

    def arrays(self) -> dict[str, np.ndarray]:
        features = {"feature_mean": self.feature_mean, "feature_spread": self.feature_spread}
        return {"mean": self.mean, "spread": self.spread, **features}

    @classmethod
    def restore(cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ImageEncoder:
        encoder = cls(config)
        sides = (saved_count(state, side, 1, 8192) for side in ("height", "width", "patch"))
        encoder.height, encoder.width, encoder.patch = sides
        encoder.channels = saved_count(state, "channels", 1, 3)
        if encoder.channels == 2:
            raise DataError("the saved encoder's 'channels' must be 1 or 3, not 2")
        encoder._check_size()
        pixels = encoder.patch**2 * encoder.channels
        encoder.mean = saved_array(arrays, "mean", "float32", (pixels,))
        encoder.spread = saved_spread(arrays, "spread", "float32", pixels)
        features = feature_count(encoder.height, encoder.width, encoder.channels, encoder.patch)
        encoder.feature_mean = saved_array(arrays, "feature_mean", "float32", (features,))
        encoder.feature_spread = saved_spread(arrays, "feature_spread", "float32", features)
        return encoder

    def _check_size(self) -> None:
        """Also of a saved encoder: a model folder must not make its user's machine decode huge images."""
        if self.height * self.width > MAX_PIXELS:
            raise DataError(
                f"images of {self.height} x {self.width} pixels are larger than the {MAX_PIXELS:,} pixels that can be "
                "read; set input.image_side to resize them"
            )
        nodes, most = math.prod(self._grid()), min(self.config.max_nodes, MAX_PATCHES)
        if nodes > most:
            limit = f"input.max_nodes={most}" if most < MAX_PATCHES else f"{MAX_PATCHES:,}"
            raise DataError(
                f"images of {self.height} x {self.width} pixels make {nodes} patches of {self.patch}, more than "
                f"{limit}; raise input.patch or lower input.image_side"
            )

    def _grid(self) -> tuple[int, int]:
        return -(-self.height // self.patch), -(-self.width // self.patch)

    def _chosen_size(self, sizes: set[tuple[int, int]]) -> tuple[int, int]:
        side = self.config.image_side
        if len(sizes) == 1 and (side == 0 or max(max(sizes)) <= side):
            return next(iter(sizes))
        if side == 0:
            a, b = sorted(sizes)[:2]
            raise DataError(
                f"the images differ in size ({a[0]} x {a[1]} and {b[0]} x {b[1]} pixels, for instance); "
                "set input.image_side to resize them"
            )
        return side, side

    def _joined_patches(self, nodes: NodeRows) -> Iterator[np.ndarray]:
        """uint8 (n, H, W, C) arrays made from patches, a few rows at a time."""
        (down, across), p = self._grid(), self.patch
        assert nodes.vectors is not None
        cut = nodes.vectors.reshape(len(nodes), down, across, p, p, self.channels)
        for first in range(0, len(nodes), step := self._rows_at_once()):
            images = cut[first : first + step].swapaxes(2, 3).reshape(-1, down * p, across * p, self.channels)
            yield np.ascontiguousarray(images[:, : self.height, : self.width])

    def _chunks(self, rows: Any) -> Any:
        """uint8 (n, H, W, C) arrays, a few rows at a time."""
        for first in range(0, len(rows), step := self._rows_at_once()):
            numbers = range(first, min(first + step, len(rows)))
            yield np.stack([self._pixels(rows[row], row) for row in numbers])

    def _rows_at_once(self) -> int:
        return max(1, min(CHUNK, CHUNK_BYTES // (self.height * self.width * self.channels)))

    def _pixels(self, item: Any, row: int) -> np.ndarray:
        """One image as uint8 (H, W, C) of the trained size."""
        if isinstance(item, (str, Path)):
            pixels = _read(Path(item), self.channels, (self.width, self.height))
        else:
            pixels = _checked_array(item, row)
        if pixels.shape[2] < self.channels:
            pixels = np.repeat(pixels, 3, axis=2)
        elif pixels.shape[2] > self.channels:  # the luminance
            pixels = np.rint(pixels @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)[:, :, None]
        if pixels.shape[:2] != (self.height, self.width):
            image = pillow().fromarray(pixels[:, :, 0] if self.channels == 1 else pixels)
            pixels = np.asarray(image.resize((self.width, self.height), pillow().Resampling.BILINEAR))
        sized: np.ndarray = pixels.reshape(self.height, self.width, self.channels)
        return sized


def _patch_side(height: int, width: int, wanted: int) -> int:
    """The wanted side, at most a third of the shorter side, and a divisor of both sides where one is near."""
    limit = max(1, min(wanted, min(height, width) // 3))
    for side in range(limit, limit // 2, -1):
        if height % side == 0 and width % side == 0:
            return side
    return limit  # the last patches of a row or column repeat the image's edge


def _size(item: Any, row: int) -> tuple[int, int, int]:
    """Height, width and colours of an image, without decoding a file's pixels."""
    if not isinstance(item, (str, Path)):
        height, width, channels = _checked_array(item, row).shape
        return height, width, channels
    with opened_image(item, row) as image:
        return image.height, image.width, 1 if image.mode in ("1", "L", "I", "I;16", "F", "LA") else 3


def _read(path: Path, channels: int, size: tuple[int, int]) -> np.ndarray:
    with opened_image(path) as image:
        image.draft("RGB", (2 * size[0], 2 * size[1]))  # JPEG: decode no finer than needed
        whole = decoded(image, path, "L" if channels == 1 else "RGB")
        if whole.size != size:
            whole = whole.resize(size, pillow().Resampling.BILINEAR)
        return np.asarray(whole, dtype=np.uint8).reshape(size[1], size[0], channels)


def _checked_array(item: Any, row: int) -> np.ndarray:
    pixels = np.asarray(item)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        raise DataError(
            f"row {row}: an array of shape {np.shape(item)} and type {pixels.dtype} was given; "
            "an image is uint8 of shape (H, W) or (H, W, 3), or the path of a file"
        )
    return pixels

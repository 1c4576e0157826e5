"""Starting points without labels: the principal directions of the training nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

SAMPLE_ROWS = 20_000
SAMPLE_NODES = 50_000


def word_directions(matrix: sparse.csr_matrix, width: int, seed: int) -> np.ndarray:
    """Right singular vectors of node values CSR (n, M), one column per word: a vector for each word, float32 (M, D).

    Scaled so that value * vector has unit spread over the matrix's entries. Where the matrix has
    fewer singular vectors than the width D, the rest is random of the same spread.

    >>> word_directions(sparse.csr_matrix(np.eye(6, dtype=np.float32)), 4, seed=0).shape
    (6, 4)
    """
    from sklearn.utils.extmath import randomized_svd

    random = np.random.default_rng(seed)
    if matrix.shape[0] > SAMPLE_ROWS:
        matrix = matrix[np.sort(random.permutation(matrix.shape[0])[:SAMPLE_ROWS])]
    n, words = matrix.shape
    directions = random.standard_normal((words, width))
    power = np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel()  # sum of squared values of each word
    if matrix.nnz == 0 or power.sum() == 0:
        return directions.astype(np.float32)
    k = min(width, n, words)
    _, _, right = randomized_svd(matrix.astype(np.float64), k, n_iter=4, random_state=seed)
    directions[:, :k] = right.T
    # Mean square of value * vector over the entries of the matrix, for each part.
    for part in (slice(0, k), slice(k, width)):
        if directions[:, part].size:
            square = power @ np.square(directions[:, part]).mean(axis=1) / matrix.nnz
            directions[:, part] /= max(np.sqrt(square), 1e-12)
    return directions.astype(np.float32)


def principal_projection(vectors: np.ndarray, width: int, seed: int) -> np.ndarray:
    """A projection of standardised vectors (n, F) on their principal directions: the weight of a layer, float32 (D, F).

    A direction of spread s gets the spread sqrt(s), so that no single direction drowns the others; over all
    directions the result has unit spread. Where F < D the rest mixes the directions at random.

    >>> x = np.random.default_rng(0).standard_normal((200, 5))
    >>> z = x @ principal_projection(x, 8, seed=0).T
    >>> bool(abs(z.std() - 1) < 0.1)
    True
    """
    random = np.random.default_rng(seed)
    if len(vectors) > SAMPLE_NODES:
        vectors = vectors[np.sort(random.permutation(len(vectors))[:SAMPLE_NODES])]
    vectors = vectors.astype(np.float64)
    features = vectors.shape[1]
    spread, axes = np.linalg.eigh(vectors.T @ vectors / max(1, len(vectors)))
    order = np.argsort(-spread)[: min(width, features)]
    spread = np.sqrt(np.maximum(spread[order], 0.0))
    useful = spread > 1e-4 * max(float(spread.max(initial=0.0)), 1e-12)
    # sqrt(s) / s: half-way between plain principal components and whitened ones.
    weight = np.where(useful, 1 / np.sqrt(np.where(useful, spread, 1.0)), 0.0)[:, None] * axes[:, order].T
    if width > len(weight):
        mixing = random.standard_normal((width - len(weight), len(weight))) / np.sqrt(max(1, len(weight)))
        weight = np.concatenate([weight, mixing @ weight])
    length = np.sqrt(np.square(vectors @ weight.T).mean()) if len(vectors) else 1.0
    projection: Any = weight / max(float(length), 1e-12)
    return np.asarray(projection, dtype=np.float32)


def start_projection(layer: nn.Linear, vectors: np.ndarray, seed: int) -> None:
    """Set a linear layer to the principal directions of vectors (n, F) that are standardised already."""
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(principal_projection(vectors, layer.out_features, seed)))
        layer.bias.zero_()


def start_centred_projection(layer: nn.Linear, vectors: np.ndarray, seed: int) -> None:
    """The same of vectors that are centred here; the bias takes their mean away."""
    mean = vectors.mean(axis=0)
    start_projection(layer, vectors - mean, seed)
    with torch.no_grad():
        layer.bias.copy_(-(layer.weight @ torch.from_numpy(mean)))


def node_sample(vectors: np.ndarray, seed: int) -> np.ndarray:
    """At most `SAMPLE_NODES` of the vectors (N, F), in their order."""
    return vectors[np.sort(np.random.default_rng(seed).permutation(len(vectors))[:SAMPLE_NODES])]

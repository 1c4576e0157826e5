"""Molecules: atoms are the nodes, bonds the edges of the feature graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.molecule_features import (
    ATOM_FEATURES,
    FINGERPRINT,
    atom_features,
    atomic_numbers,
    descriptor_names,
    descriptors,
    environments,
    fingerprints,
    named_fragments,
)
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.restore import saved_array
from lampnet.encoders.spectral import node_sample, start_centred_projection
from lampnet.encoders.vector import mean_and_spread, saved_mean_and_spread
from lampnet.encoders.wordset import WordVectors, warn_of_cut_rows
from lampnet.errors import DataError, MissingExtra

BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
ENVIRONMENT_COUNT = 3
#: weight of the descriptors beside the fingerprint; on SIDER (linear model, four folds, macro AUC) fingerprints
#: alone reach .663, with descriptors of weight .1 .668, of weight .05 .673
DESCRIBED = 0.05


class Atoms(Embedding):
    """z = W^x (atom features) + the vector of the atom's surroundings (itself and its neighbours)."""

    def __init__(self, surroundings: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(ATOM_FEATURES, width)
        self.surroundings = nn.Embedding(surroundings + 1, width)  # 0: never seen in training
        nn.init.normal_(self.surroundings.weight, std=0.3)
        with torch.no_grad():
            self.surroundings.weight[0] = 0.0

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        assert batch.vectors_BSF is not None
        assert batch.ids_BS is not None
        z_BSD = self.projection(batch.vectors_BSF.float()) + self.surroundings(batch.ids_BS)
        return z_BSD, batch.present_BS, batch.edge_types_BSS

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """The principal directions of the training atoms; surroundings stay random."""
        assert nodes.vectors is not None
        start_centred_projection(self.projection, node_sample(nodes.vectors, seed).astype(np.float32), seed)


class MoleculeEncoder(Encoder):
    """Learns common atom surroundings and the spread of the descriptors from the training rows.

    With `atoms="element"`, the paper's form, an atom's vector is that of its element, and bonds have no types.

    >>> encoder = MoleculeEncoder(InputConfig()).fit(["CCO", "c1ccccc1", "CC(=O)N"])
    >>> encoded = encoder.encode(["CCO"])
    >>> encoded.node_names(0)
    ['C0', 'C1', 'O2']
    >>> encoded.nodes.edges.tolist()
    [[0, 1, 0], [1, 0, 0], [1, 2, 0], [2, 1, 0]]
    """

    kind = "molecule"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.elements_only = config.atoms == "element"
        self.edge_types = 0 if self.elements_only else len(BONDS)
        self.surroundings = np.zeros(0, dtype=np.int64)  # sorted; of elements only, their atomic numbers
        self.mean, self.spread = np.zeros(0), np.ones(0)

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> MoleculeEncoder:
        if len(rows) == 0:
            raise DataError("molecules were given without any training row; give at least one")
        keys, counts = np.unique(np.concatenate([self._keys(m) for m in _parsed(rows)]), return_counts=True)
        self.surroundings = keys[counts >= (1 if self.elements_only else ENVIRONMENT_COUNT)]
        self.mean, self.spread = mean_and_spread(np.stack([_described(text) for text in rows]))
        return self

    def parse(self, rows: Any) -> list[tuple[str, Any]]:
        """SMILES and RDKit molecule of each row."""
        return list(zip(rows, _parsed(rows), strict=True))

    def nodes_of(self, parsed: list[tuple[str, Any]]) -> NodeRows:
        vectors, ids, edges = [], [], []
        limit, cut = self.config.max_nodes, 0
        for _, molecule in parsed:
            cut += molecule.GetNumAtoms() > limit
            if not self.elements_only:
                vectors.append(atom_features(molecule)[:limit])
            ids.append(self._ids(self._keys(molecule)[:limit]))
            bonds = _bonds(molecule)
            edges.append(bonds[(bonds[:, :2] < limit).all(axis=1)])
        warn_of_cut_rows(cut, len(parsed), limit)
        number = np.concatenate([np.zeros(0, dtype=np.int32), *ids])
        described = np.concatenate([np.zeros((0, ATOM_FEATURES), dtype=np.uint8), *vectors])
        return NodeRows(
            offsets=np.cumsum([0] + [len(part) for part in ids]).astype(np.int64),
            ids=number,
            values=np.ones(len(number), dtype=np.float32) if self.elements_only else None,
            vectors=None if self.elements_only else described,
            edges=np.concatenate([np.zeros((0, 3), dtype=np.int32), *edges]),
            edge_offsets=np.cumsum([0] + [len(part) for part in edges]).astype(np.int64),
        )

    def features_of(self, parsed: list[tuple[str, Any]]) -> np.ndarray:
        """Morgan fingerprint counts (log, length one) and standardised descriptors, float32 (n, F)."""
        if not parsed:
            return np.zeros((0, fingerprints([]).shape[1] + len(self.mean)), dtype=np.float32)
        described = (np.stack([_described(text) for text, _ in parsed]) - self.mean) / self.spread
        morgan = fingerprints([molecule for _, molecule in parsed])
        return np.hstack([morgan, DESCRIBED * np.clip(described, -5, 5)]).astype(np.float32)

    @property
    def n_ids(self) -> int:
        return len(self.surroundings) + 1

    def embedding(self, width: int) -> Embedding:
        if self.elements_only:
            return WordVectors(len(self.surroundings) + 1, width)
        return Atoms(len(self.surroundings), width)

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        _, molecule = encoded.parsed[row]
        return [f"{atom.GetSymbol()}{atom.GetIdx()}" for atom in molecule.GetAtoms()][: self.config.max_nodes]

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        return [((atom,),) for atom in range(encoded.nodes.lengths()[row])]

    @property
    def n_features(self) -> int:
        return FINGERPRINT + len(self.mean)

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        names = descriptor_names()
        return [
            NamedFeature(f"fragment {column}" if column < FINGERPRINT else names[column - FINGERPRINT])
            for column in columns
        ]

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        """A fragment that the molecule has is named by its SMILES; its places are its atoms."""
        fragments = named_fragments(encoded.parsed[row][1])
        named = self.name_features(columns)
        for at, column in enumerate(columns):
            if int(column) in fragments:
                smiles, atoms = fragments[int(column)]
                named[at] = NamedFeature(smiles, places=tuple((atom,) for atom in atoms))
        return named

    def arrays(self) -> dict[str, np.ndarray]:
        return {"surroundings": self.surroundings, "mean": self.mean, "spread": self.spread}

    @classmethod
    def restore(
        cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> MoleculeEncoder:
        encoder = cls(config)
        encoder.surroundings = saved_array(arrays, "surroundings", "int64", (None,))
        if (np.diff(encoder.surroundings) <= 0).any():
            raise DataError("the saved atom surroundings are not in order; the model folder is damaged")
        encoder.mean, encoder.spread = saved_mean_and_spread(arrays, len(descriptors(_molecule("C"))))
        return encoder

    def _keys(self, molecule: Any) -> np.ndarray:
        """What each atom's own vector is chosen by, int64 (atoms,)."""
        return atomic_numbers(molecule) if self.elements_only else environments(molecule)

    def _ids(self, keys: np.ndarray) -> np.ndarray:
        """1, 2, ... for surroundings seen in training, 0 for others."""
        index = np.searchsorted(self.surroundings, keys)
        return np.where(np.append(self.surroundings, -1)[index] == keys, index + 1, 0).astype(np.int32)


def _parsed(rows: Any) -> list[Any]:
    if isinstance(rows, str):
        raise DataError("a single SMILES string was given; expected a list of them: put it in a list")
    molecules = []
    for row, text in enumerate(rows):
        molecule = _molecule(text)
        if molecule is None:
            shown = repr(text) if len(repr(text)) <= 80 else f"{repr(text)[:77]}..."
            raise DataError(
                f"row {row}: {shown} is not valid SMILES; correct it or leave the row out (--on-bad-row skip)"
            )
        molecules.append(molecule)
    return molecules


def _molecule(text: Any) -> Any | None:
    """An RDKit molecule with at least one atom, or None."""
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise MissingExtra("rdkit", "molecules", "molecule input") from None
    if not isinstance(text, str):
        return None
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


@lru_cache(maxsize=16_384)
def _described(text: str) -> np.ndarray:
    """Descriptors of a valid SMILES; kept, because fitting the encoder and encoding need them of the same rows."""
    return descriptors(_molecule(text)).astype(np.float32)


def _bonds(molecule: Any) -> np.ndarray:
    """int32 (2 * bonds, 3): from atom, to atom, type; other bond types (dative, ...) count as single."""
    edges = []
    for bond in molecule.GetBonds():
        name = str(bond.GetBondType())
        kind = BONDS.index(name) if name in BONDS else 0
        begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges += [(begin, end, kind), (end, begin, kind)]
    return np.array(edges, dtype=np.int32).reshape(-1, 3)

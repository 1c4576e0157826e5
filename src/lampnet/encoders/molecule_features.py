"""Numbers of atoms and molecules, by RDKit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

ELEMENTS = (6, 7, 8, 9, 15, 16, 17, 35, 53, 5, 14, 34, 11, 19, 20, 12, 30, 26, 29, 3, 13, 33, 50, 78, 80)
DEGREES = HYDROGENS = 5
CHARGES = (-2, -1, 0, 1, 2)
HYBRIDISATIONS = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
CHIRALITIES = ("CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW")
RINGS = (3, 4, 5, 6, 7)
#: one-hot of the above with an entry for "other" where the list is open, then aromatic, in a ring, ring sizes
ATOM_FEATURES = (
    len(ELEMENTS) + 1 + DEGREES + 1 + HYDROGENS + len(CHARGES) + 1 + len(HYBRIDISATIONS) + 1 + len(CHIRALITIES) + 2
    + len(RINGS)
)  # fmt: skip
FINGERPRINT = 2_048
WHOLE = (
    "MolWt", "MolLogP", "TPSA", "NumHDonors", "NumHAcceptors", "NumRotatableBonds", "RingCount", "NumAromaticRings",
    "FractionCSP3", "HeavyAtomCount", "NumAliphaticRings", "NumHeteroatoms", "LabuteASA", "MolMR", "NHOHCount",
    "NumSaturatedRings", "HallKierAlpha", "Kappa1", "Kappa2", "Kappa3",
)  # fmt: skip


def atom_features(molecule: Any) -> np.ndarray:
    """uint8 (atoms, ATOM_FEATURES): element, degree, hydrogens, charge, hybridisation, chirality, rings."""
    features = np.zeros((molecule.GetNumAtoms(), ATOM_FEATURES), dtype=np.uint8)
    rings = molecule.GetRingInfo()
    for i, atom in enumerate(molecule.GetAtoms()):
        at = 0
        for value, known, open_list in (
            (atom.GetAtomicNum(), ELEMENTS, True),
            (atom.GetDegree(), range(DEGREES), True),
            (min(atom.GetTotalNumHs(), HYDROGENS - 1), range(HYDROGENS), False),
            (atom.GetFormalCharge(), CHARGES, True),
            (str(atom.GetHybridization()), HYBRIDISATIONS, True),
            (str(atom.GetChiralTag()), CHIRALITIES, False),
        ):
            if value in known:
                features[i, at + known.index(value)] = 1  # type: ignore[arg-type]
            elif open_list:
                features[i, at + len(known)] = 1
            at += len(known) + int(open_list)
        features[i, at] = atom.GetIsAromatic()
        features[i, at + 1] = atom.IsInRing()
        for k, size in enumerate(RINGS, start=at + 2):
            features[i, k] = rings.IsAtomInRingOfSize(i, size)
    return features


def atomic_numbers(molecule: Any) -> np.ndarray:
    """int64 (atoms,): the element of each atom."""
    return np.array([atom.GetAtomicNum() for atom in molecule.GetAtoms()], dtype=np.int64)


def environments(molecule: Any) -> np.ndarray:
    """int64 (atoms,): a number for each atom's surroundings, itself with its bonds and neighbours."""
    from rdkit.Chem import rdFingerprintGenerator

    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateAtomToBits()
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=1, includeRedundantEnvironments=True)
    generator.GetSparseCountFingerprint(molecule, additionalOutput=output)
    # The last bit of an atom is its widest surroundings; a lone atom has only itself.
    return np.array([bits[-1] for bits in output.GetAtomToBits()], dtype=np.int64)


def fingerprints(molecules: list[Any]) -> np.ndarray:
    """float32 (n, 2048): logarithms of Morgan counts of radius 2, each row of length one."""
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=FINGERPRINT)
    counts = np.zeros((len(molecules), FINGERPRINT), dtype=np.float32)
    for row, molecule in enumerate(molecules):
        counts[row] = generator.GetCountFingerprintAsNumPy(molecule)
    logs = np.log1p(counts)
    unit: np.ndarray = logs / np.maximum(np.linalg.norm(logs, axis=1, keepdims=True), 1e-9)
    return unit


def descriptors(molecule: Any) -> np.ndarray:
    """float64 (D,): sizes, surface areas by charge and polarity, counted groups and keys, on a logarithmic scale."""
    from rdkit.Chem import rdMolDescriptors

    values = np.concatenate(
        [
            [compute(molecule) for compute in _descriptor_functions()],
            rdMolDescriptors.PEOE_VSA_(molecule),
            rdMolDescriptors.SMR_VSA_(molecule),
            rdMolDescriptors.SlogP_VSA_(molecule),
            list(rdMolDescriptors.GetMACCSKeysFingerprint(molecule)),
        ]
    ).astype(np.float64)
    values[~np.isfinite(values)] = 0.0
    logs: np.ndarray = np.sign(values) * np.log1p(np.abs(values))
    return logs


def named_fragments(molecule: Any) -> dict[int, tuple[str, tuple[int, ...]]]:
    """The fragments that `fingerprints` counts in a molecule, by number: the SMILES of the first, and all its atoms."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateBitInfoMap()
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=FINGERPRINT)
    generator.GetCountFingerprint(molecule, additionalOutput=output)
    found = {}
    for number, places in output.GetBitInfoMap().items():
        atoms: list[int] = []
        smiles = ""
        for centre, radius in places:
            bonds = list(Chem.FindAtomEnvironmentOfRadiusN(molecule, radius, centre)) if radius else []
            ends = [
                (molecule.GetBondWithIdx(b).GetBeginAtomIdx(), molecule.GetBondWithIdx(b).GetEndAtomIdx())
                for b in bonds
            ]
            own = sorted({centre, *(atom for pair in ends for atom in pair)})
            smiles = smiles or Chem.MolFragmentToSmiles(molecule, own, bondsToUse=bonds)
            atoms += own
        found[int(number)] = (smiles, tuple(dict.fromkeys(atoms)))
    return found


@cache
def descriptor_names() -> tuple[str, ...]:
    """What `descriptors` gives, in its order."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors, rdMolDescriptors

    one = Chem.MolFromSmiles("C")
    groups = [name for name, _ in Descriptors.descList if name.startswith("fr_")]
    areas = []
    for name in ("PEOE_VSA", "SMR_VSA", "SlogP_VSA"):
        areas += [f"{name}{i + 1}" for i in range(len(getattr(rdMolDescriptors, f"{name}_")(one)))]
    keys = [f"MACCS key {i}" for i in range(rdMolDescriptors.GetMACCSKeysFingerprint(one).GetNumBits())]
    return (*WHOLE, *groups, *areas, *keys)


@cache
def _descriptor_functions() -> tuple[Callable[[Any], float], ...]:
    """Quick single numbers: of the whole molecule, and counts of functional groups (fr_...)."""
    from rdkit.Chem import Descriptors

    groups = [function for name, function in Descriptors.descList if name.startswith("fr_")]
    return (*(getattr(Descriptors, name) for name in WHOLE), *groups)

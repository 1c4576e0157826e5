"""A molecule as lines and letters: the page draws it itself, so that no foreign markup enters it."""

from __future__ import annotations

from typing import Any

from lampnet.errors import MissingExtra


def molecule_drawing(smiles: str) -> dict[str, Any]:
    """Where RDKit places the atoms [{x, y, symbol, charge}] (angstrom-like units, y down), and the bonds.

    Bonds are [{from, to, order}] with order 1, 2, 3 or 1.5.

    >>> drawing = molecule_drawing("CO")
    >>> [atom["symbol"] for atom in drawing["atoms"]], drawing["bonds"][0]["order"]
    (['C', 'O'], 1.0)
    """
    try:
        from rdkit import Chem
        from rdkit.Chem import rdDepictor
    except ImportError:
        raise MissingExtra("rdkit", "molecules", "drawing a molecule") from None
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None:
        return {"atoms": [], "bonds": []}
    rdDepictor.Compute2DCoords(molecule)
    positions = molecule.GetConformer().GetPositions()
    return {
        "atoms": [
            {"x": round(x, 3), "y": round(-y, 3), "symbol": atom.GetSymbol(), "charge": atom.GetFormalCharge()}
            for atom, (x, y, _) in zip(molecule.GetAtoms(), positions.tolist(), strict=True)
        ],
        "bonds": [
            {"from": bond.GetBeginAtomIdx(), "to": bond.GetEndAtomIdx(), "order": float(bond.GetBondTypeAsDouble())}
            for bond in molecule.GetBonds()
        ],
    }

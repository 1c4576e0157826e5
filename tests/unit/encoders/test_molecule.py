"""Molecules: atoms, bonds, bad rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rdkit import Chem

from lampnet.config import InputConfig
from lampnet.encoders.molecule import BONDS, MoleculeEncoder
from lampnet.encoders.molecule_features import ATOM_FEATURES, ELEMENTS, atom_features
from lampnet.errors import DataError

SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "C#N", "[Na+].[Cl-]", "C", "N[C@@H](C)C(=O)O", "[Fe+2]", "O=C1CCCCC1"]


@pytest.fixture(scope="module")
def encoder():
    return MoleculeEncoder(InputConfig()).fit(SMILES * 3)


def test_edges_agree_with_a_walk_over_all_atom_pairs(encoder):
    index = np.array([4, 0, 2, 1])
    batch = encoder.encode(SMILES).nodes.batch(index)
    for b, row in enumerate(index):
        molecule = Chem.MolFromSmiles(SMILES[row])
        expected = torch.zeros_like(batch.edge_types_BSS[b])
        for i in range(molecule.GetNumAtoms()):
            for j in range(molecule.GetNumAtoms()):
                bond = molecule.GetBondBetweenAtoms(i, j) if i != j else None
                if bond is not None:
                    expected[i, j] = 1 + BONDS.index(str(bond.GetBondType()))
        assert torch.equal(batch.edge_types_BSS[b], expected)
        assert int(batch.present_BS[b].sum()) == molecule.GetNumAtoms()
    assert set(batch.edge_types_BSS.unique().tolist()) == {0, 1, 2, 3, 4}
    assert encoder.edge_types == 4


def test_atom_features_tell_atoms_apart():
    features = atom_features(Chem.MolFromSmiles("C[NH3+]"))
    assert features.shape == (2, ATOM_FEATURES)
    assert features[0, ELEMENTS.index(6)] == 1
    assert features[1, ELEMENTS.index(7)] == 1
    assert (features[0] != features[1]).sum() >= 4  # element and charge, each on one place and off another
    left, right = (atom_features(Chem.MolFromSmiles(s)) for s in ("N[C@@H](C)O", "N[C@H](C)O"))
    assert (left[1] != right[1]).any()
    ring = atom_features(Chem.MolFromSmiles("c1ccccc1C"))
    assert ring[0, -7:].tolist() == [1, 1, 0, 0, 0, 1, 0]  # aromatic, in a ring, of six
    assert ring[6, -7:].tolist() == [0] * 7
    assert atom_features(Chem.MolFromSmiles("[U]"))[0, len(ELEMENTS)] == 1  # an element without its own place


def test_surroundings_are_learned_from_training_rows_only(encoder):
    known = encoder.encode(["C#N"]).nodes.ids
    assert (known > 0).all()
    assert encoder.encode(["FC(F)(F)Br"]).nodes.ids.tolist() == [0] * 5
    module = encoder.embedding(8)
    assert torch.equal(module.surroundings.weight[0], torch.zeros(8))
    # The two carbons of acetone's ends are alike, the middle one is not.
    alike = MoleculeEncoder(InputConfig()).fit(["CC(=O)C"] * 3).encode(["CC(=O)C"]).nodes.ids
    assert alike[0] == alike[3] != alike[1]


@pytest.mark.parametrize("bad", ["not a molecule", "", "C1CC", "c1cccc1", None, 7])
def test_invalid_smiles_name_their_row(encoder, bad, capfd):
    rows = ["CCO", bad, "C"]
    for work in (encoder.encode, MoleculeEncoder(InputConfig()).fit):
        with pytest.raises(DataError, match="row 1: ") as caught:
            work(rows)
        assert repr(bad) in str(caught.value)
    assert capfd.readouterr().err == ""  # RDKit is silent


def test_one_string_is_no_list(encoder):
    with pytest.raises(DataError, match="put it in a list"):
        encoder.encode("CCO")


def test_large_molecules_are_cut_with_their_bonds():
    encoder = MoleculeEncoder(InputConfig(max_nodes=4)).fit(["CCCCCC"])
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        nodes = encoder.encode(["CCCCCC", "CO"]).nodes
    assert nodes.lengths().tolist() == [4, 2]
    assert nodes.edges[:, :2].max() == 3
    assert np.diff(nodes.edge_offsets).tolist() == [6, 2]
    assert encoder.encode(["CCCCCC"]).node_names(0) == ["C0", "C1", "C2", "C3"]


def test_features_are_standard_and_do_not_depend_on_the_spelling(encoder):
    features = encoder.encode(["OCC", "CCO", "c1ccccc1"]).features
    np.testing.assert_allclose(features[0], features[1], atol=1e-6)
    assert np.abs(features[0] - features[2]).max() > 0.1
    np.testing.assert_allclose(np.linalg.norm(features[:, :2048], axis=1), 1, atol=1e-5)
    assert 0 < np.abs(features[:, 2048:]).max() <= 0.25


def test_atoms_as_elements_with_plain_bonds():
    encoder = MoleculeEncoder(InputConfig(atoms="element")).fit(["CC(=O)C", "C#N"])
    assert encoder.surroundings.tolist() == [6, 7, 8]
    nodes = encoder.encode(["C#N", "OCF"]).nodes
    assert nodes.ids.tolist() == [1, 2, 3, 1, 0]  # fluorine was in no training row
    assert nodes.vectors is None
    assert encoder.edge_types == 0
    assert nodes.batch(np.array([0])).edge_types_BSS[0].bool().tolist() == [[False, True], [True, False]]
    z, present, _ = encoder.embedding(4)(nodes.batch(np.array([0, 1])))
    assert present.tolist() == [[True, True, False], [True, True, True]]
    assert torch.equal(z[0, 0], z[1, 1])  # carbon, whatever it is bound to
    again = MoleculeEncoder.restore(encoder.config, encoder.state(), encoder.arrays())
    assert again.encode(["OCF"]).nodes.ids.tolist() == [3, 1, 0]

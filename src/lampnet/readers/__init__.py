"""Raw files to `Dataset`: one file a format, and the registry of named data sets.

The public names are loaded when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lampnet.readers.alignment import random_split as random_split
    from lampnet.readers.arff import read_arff as read_arff
    from lampnet.readers.csv_table import read_table as read_table
    from lampnet.readers.digit_scenes import digit_truth as digit_truth
    from lampnet.readers.digit_scenes import planted_dependencies as planted_dependencies
    from lampnet.readers.dna import read_bed as read_bed
    from lampnet.readers.dna import read_fasta as read_fasta
    from lampnet.readers.dna import read_windows as read_windows
    from lampnet.readers.dna import windows_with_peaks as windows_with_peaks
    from lampnet.readers.jsonl import read_jsonl as read_jsonl
    from lampnet.readers.label_edges import read_edge_list as read_edge_list
    from lampnet.readers.label_edges import read_string_edges as read_string_edges
    from lampnet.readers.label_edges import read_tree_edges as read_tree_edges
    from lampnet.readers.libsvm import read_libsvm as read_libsvm
    from lampnet.readers.lyrl import read_lyrl as read_lyrl
    from lampnet.readers.mat import read_mat as read_mat
    from lampnet.readers.npz import read_npz as read_npz
    from lampnet.readers.open import read as read
    from lampnet.readers.open import read_file as read_file
    from lampnet.readers.open import read_folder as read_folder
    from lampnet.readers.registry import NAMES as NAMES
    from lampnet.readers.registry import describe as describe
    from lampnet.readers.registry import load as load
    from lampnet.readers.registry import load_edges as load_edges
    from lampnet.readers.sgml_reuters import read_reuters as read_reuters
    from lampnet.readers.xc import read_xc as read_xc

_HOME = {
    "NAMES": "registry",
    "describe": "registry",
    "digit_truth": "digit_scenes",
    "load": "registry",
    "load_edges": "registry",
    "planted_dependencies": "digit_scenes",
    "random_split": "alignment",
    "read": "open",
    "read_arff": "arff",
    "read_bed": "dna",
    "read_edge_list": "label_edges",
    "read_fasta": "dna",
    "read_file": "open",
    "read_folder": "open",
    "read_jsonl": "jsonl",
    "read_libsvm": "libsvm",
    "read_lyrl": "lyrl",
    "read_mat": "mat",
    "read_npz": "npz",
    "read_reuters": "sgml_reuters",
    "read_string_edges": "label_edges",
    "read_table": "csv_table",
    "read_tree_edges": "label_edges",
    "read_windows": "dna",
    "read_xc": "xc",
    "windows_with_peaks": "dna",
}

__all__ = [
    "NAMES",
    "describe",
    "digit_truth",
    "load",
    "load_edges",
    "planted_dependencies",
    "random_split",
    "read",
    "read_arff",
    "read_bed",
    "read_edge_list",
    "read_fasta",
    "read_file",
    "read_folder",
    "read_jsonl",
    "read_libsvm",
    "read_lyrl",
    "read_mat",
    "read_npz",
    "read_reuters",
    "read_string_edges",
    "read_table",
    "read_tree_edges",
    "read_windows",
    "read_xc",
    "windows_with_peaks",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

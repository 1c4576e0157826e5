"""Rows that are learned from under a label hierarchy: every label has its parents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.data.splits import Splits
from lampnet.errors import DataError
from lampnet.pipeline.control import Log
from lampnet.pipeline.mapped_rows import MappedRows


def with_parents(splits: Splits, hierarchy: LabelHierarchy, log: Log) -> Splits:
    """The labelled rows with the parents of their labels; the log says how many lacked one."""
    train, lacking = hierarchy.completed(splits.train)
    valid = splits.valid
    if valid is not None:
        valid, more = hierarchy.completed(valid)
        lacking += more
    if lacking:
        log(f"label hierarchy: {lacking} rows have a label without its parents, which are added")
    return replace(splits, train=train, valid=valid)


def check_mapped(hierarchy: LabelHierarchy, rows: MappedRows) -> None:
    """Refuse mapped rows that lack a parent: they stay as they are on disk."""
    for part in rows.parts.values():
        stored = part.targets
        shape = (len(part), len(rows.label_names))
        labels = sparse.csc_matrix(sparse.csr_matrix((stored.values, stored.ids, stored.offsets), shape=shape) == 1)
        for child, parent in hierarchy.edges:
            own, above = (labels.indices[labels.indptr[at] : labels.indptr[at + 1]] for at in (child, parent))
            lacking = len(np.setdiff1d(own, above))
            if lacking:
                names = hierarchy.label_names
                raise DataError(
                    f"{rows.name}: {lacking} rows have {names[child]!r} without its parent {names[parent]!r}; rows "
                    "that are mapped from disk are not completed: add the parents to the file, or give fewer rows"
                )

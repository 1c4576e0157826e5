"""What predicts labels from known labels, as a part of the model folder: `known.*` arrays and a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.base_learners.label_dependence import LabelDependence
from lampnet.base_learners.shift_weights import ShiftWeights
from lampnet.config import Config
from lampnet.errors import ModelFolderError
from lampnet.evaluation.choose_rules import Decisions
from lampnet.inference.conditional import Conditional
from lampnet.model.label_graph import LabelGraph
from lampnet.model.label_states import LabelStates, build_label_states
from lampnet.persistence.tensor_file import Entry, arrays_under

PREFIX = "known."
#: puts stored arrays into a network whose tensors have no memory yet, after checking them
Fill = Callable[[Callable[[], LabelStates], Mapping[str, np.ndarray]], LabelStates]


def conditional_arrays(conditional: Conditional) -> dict[str, np.ndarray]:
    """All numbers, by name."""
    arrays = {f"tables.{name}": table for name, table in conditional.dependence.arrays().items()}
    arrays["shift_weight"] = conditional.shift_weights.table_PC
    for number, network in enumerate(conditional.members):
        arrays |= {f"members.{number}.{name}": p.detach().numpy() for name, p in network.state_dict().items()}
    return {PREFIX + name: array for name, array in arrays.items()}


def conditional_json(conditional: Conditional) -> dict[str, Any]:
    """The rest, as plain data."""
    return {
        "members": len(conditional.members),
        "correction": conditional.correction,
        "decisions": {name: decisions.to_json() for name, decisions in conditional.decisions.items()},
    }


def check_size(data: Any, config: Config, header: Mapping[str, Entry]) -> None:
    """What the settings imply must be in the file before a network of that size is made."""
    _require(isinstance(data, Mapping) and isinstance(data.get("members"), int), "its description is not a JSON object")
    members, known = data["members"], config.known
    passes = sum(name.startswith(PREFIX) and name.endswith(".W_q.weight") for name in header)
    vectors = [header.get(f"{PREFIX}members.{number}.W_y") for number in range(min(members, passes))]
    widths = {None if entry is None else entry.shape[-1:] for entry in vectors}
    _require(members * known.steps == passes, "steps or networks are not as announced")
    _require(members == 0 or widths == {(known.width,)}, "the width is not as announced")


def restore_conditional(
    data: Mapping[str, Any],
    config: Config,
    graph: sparse.csr_matrix | None,
    n_labels: int,
    arrays: Mapping[str, np.ndarray],
    fill: Fill,
) -> Conditional:
    """What `conditional_arrays` and `conditional_json` described, checked: the folder is untrusted."""
    own = arrays_under(arrays, PREFIX)
    dependence = LabelDependence.restore(arrays_under(own, "tables."), n_labels)
    n_shifts = dependence.n_shifts
    stored = own.get("shift_weight")
    weights = ShiftWeights.restore(stored, n_shifts)
    if data["members"] and stored is not None and stored.ndim == 1:
        raise ModelFolderError("the networks on known labels are of an earlier version; train the model again")
    correction, decisions = data.get("correction"), data.get("decisions")
    _require(isinstance(correction, (int, float)) and 0 <= correction <= 1, "its correction is not a share")
    _require(isinstance(decisions, Mapping) and set(decisions) <= {"few", "many"}, "its decisions are damaged")
    assert isinstance(decisions, Mapping)
    assert isinstance(correction, (int, float))

    def build() -> LabelStates:
        return build_label_states(config.known, LabelGraph(config.label_graph, graph, n_labels), n_shifts)

    members = [fill(build, arrays_under(own, f"members.{number}.")) for number in range(data["members"])]
    return Conditional(
        dependence=dependence,
        shift_weights=weights,
        members=members,
        correction=float(correction),
        decisions={name: Decisions.from_json(rules, n_labels) for name, rules in decisions.items()},
    )


def _require(condition: object, otherwise: str) -> None:
    if not condition:
        raise ModelFolderError(
            f"what this model knows of label dependence is damaged: {otherwise}; train or copy the model again"
        )

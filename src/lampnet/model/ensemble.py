"""Several networks that learned from different parts of the rows, heard as one: what they say is averaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.model.kernels.int8 import for_prediction
from lampnet.model.label_edges import LabelGraph
from lampnet.model.lamp import LaMP, Output


class Ensemble(nn.Module):
    """The mean of its members: logits of every stage and, on request, attention weights.

    It is called as a single `LaMP` is. Where only candidate labels exchange messages, all members hear the
    same candidates, chosen by their common first opinion.
    """

    def __init__(self, members: Iterable[LaMP]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def first(self) -> LaMP:
        network = self.members[0]
        assert isinstance(network, LaMP)
        return network

    @property
    def config(self) -> ModelConfig:
        return self.first.config

    @property
    def n_labels(self) -> int:
        return self.first.n_labels

    @property
    def graph(self) -> LabelGraph:
        return self.first.graph

    @property
    def candidates(self) -> int:
        return self.first.candidates

    def forward(
        self, batch: Any, base_logits_BLK: Tensor | None = None, record: bool = False, final_stage_only: bool = False
    ) -> Output:
        """As `LaMP.forward`."""
        forced_BL = self._common_candidates(batch, base_logits_BLK)
        outputs = [
            m(batch, base_logits_BLK, record=record, forced_BL=forced_BL, final_stage_only=final_stage_only)
            for m in self.members
        ]
        first = outputs[0]
        return Output(
            stages=_mean([output.stages for output in outputs]),
            initial=None if first.initial is None else torch.stack([o.initial for o in outputs]).mean(0),
            to_input=_mean([output.to_input for output in outputs]),
            to_labels=_mean([output.to_labels for output in outputs]),
            candidates=first.candidates,
        )

    def _common_candidates(self, batch: Any, base_logits_BLK: Tensor | None) -> Tensor | None:
        """Which labels all members must hear, bool (B, L); None where all labels take part."""
        if not 0 < self.candidates < self.n_labels:
            return None
        opinions = [_initial_logits(member, batch, base_logits_BLK) for member in networks_of(self)]
        best_BM = torch.stack(opinions).mean(0).topk(self.candidates, dim=1).indices
        return torch.zeros_like(opinions[0], dtype=torch.bool).scatter_(1, best_BM, True)


def _initial_logits(member: LaMP, batch: Any, base_logits_BLK: Tensor | None) -> Tensor:
    """(B, L); from the evidence it costs nothing, without any a pass through the network."""
    if base_logits_BLK is not None:
        bias = 0.0 if member.bias is None else member.bias
        return (base_logits_BLK * member.stacking_weight).sum(-1) + bias
    initial: Tensor = member(batch, None, final_stage_only=True).initial
    return initial


def _mean(of_members: Sequence[Any]) -> Any:
    """Lists of tensors, one list a member -> the mean of the first tensors, of the second, ...; None stays None."""
    if of_members[0] is None:
        return None
    return [torch.stack(list(same)).mean(0) for same in zip(*of_members, strict=True)]


def networks_of(network: LaMP | Ensemble) -> list[LaMP]:
    """The single networks that a model is made of."""
    return cast(list[LaMP], list(network.members)) if isinstance(network, Ensemble) else [network]


def heard_as_one(networks: Sequence[LaMP]) -> LaMP | Ensemble:
    """A committee, or the network itself where there is but one."""
    return networks[0] if len(networks) == 1 else Ensemble(networks)


def made_ready(network: LaMP | Ensemble, precision: str, candidates: int | None) -> LaMP | Ensemble:
    """As `lampnet.model.kernels.int8.for_prediction`, for every member."""
    return heard_as_one([for_prediction(member, precision, candidates) for member in networks_of(network)]).eval()

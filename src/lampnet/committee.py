"""Several networks that learned from different parts of the rows, heard as one: what they say is averaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.label_attention import LabelGraph
from lampnet.model import LaMP, Output
from lampnet.quantise import for_prediction


class Committee(nn.Module):
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
        self, batch: Any, evidence_BLK: Tensor | None = None, record: bool = False, last_only: bool = False
    ) -> Output:
        """As `LaMP.forward`."""
        must_BL = self._common_candidates(batch, evidence_BLK)
        outputs = [m(batch, evidence_BLK, record=record, must_BL=must_BL, last_only=last_only) for m in self.members]
        first = outputs[0]
        return Output(
            stages=_mean([output.stages for output in outputs]),
            opinion=None if first.opinion is None else torch.stack([o.opinion for o in outputs]).mean(0),
            to_input=_mean([output.to_input for output in outputs]),
            to_labels=_mean([output.to_labels for output in outputs]),
            candidates=first.candidates,
        )

    def _common_candidates(self, batch: Any, evidence_BLK: Tensor | None) -> Tensor | None:
        """Which labels all members must hear, bool (B, L); None where all labels take part."""
        if not 0 < self.candidates < self.n_labels:
            return None
        opinions = [_first_opinion(member, batch, evidence_BLK) for member in networks_of(self)]
        best_BM = torch.stack(opinions).mean(0).topk(self.candidates, dim=1).indices
        return torch.zeros_like(opinions[0], dtype=torch.bool).scatter_(1, best_BM, True)


def _first_opinion(member: LaMP, batch: Any, evidence_BLK: Tensor | None) -> Tensor:
    """(B, L); from the evidence it costs nothing, without any a pass through the network."""
    if evidence_BLK is not None:
        bias = 0.0 if member.bias is None else member.bias
        return (evidence_BLK * member.evidence_weight).sum(-1) + bias
    opinion: Tensor = member(batch, None, last_only=True).opinion
    return opinion


def _mean(of_members: Sequence[Any]) -> Any:
    """Lists of tensors, one list a member -> the mean of the first tensors, of the second, ...; None stays None."""
    if of_members[0] is None:
        return None
    return [torch.stack(list(same)).mean(0) for same in zip(*of_members, strict=True)]


def networks_of(network: LaMP | Committee) -> list[LaMP]:
    """The single networks that a model is made of."""
    return cast(list[LaMP], list(network.members)) if isinstance(network, Committee) else [network]


def heard_as_one(networks: Sequence[LaMP]) -> LaMP | Committee:
    """A committee, or the network itself where there is but one."""
    return networks[0] if len(networks) == 1 else Committee(networks)


def made_ready(network: LaMP | Committee, precision: str, candidates: int | None) -> LaMP | Committee:
    """As `lampnet.quantise.for_prediction`, for every member."""
    return heard_as_one([for_prediction(member, precision, candidates) for member in networks_of(network)]).eval()

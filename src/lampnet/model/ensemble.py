"""The cross-fitted ensemble: networks that learned from different folds of the rows, averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import NOTHING_KNOWN, LabelInput, Output
from lampnet.model.stacked import StackedLaMP


class Ensemble(nn.Module):
    """The mean of its members: logits of every stage and, on request, attention weights.

    It is called as a single network is, and a single network is an ensemble of one. Where only a shortlist of
    labels exchanges messages, all members use the same one: that of the stacked base logits, else the one chosen by
    the mean of their initial logits.
    """

    def __init__(self, members: Iterable[StackedLaMP]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def networks(self) -> list[StackedLaMP]:
        return cast(list[StackedLaMP], list(self.members))

    @property
    def config(self) -> ModelConfig:
        return self.networks[0].config

    @property
    def n_labels(self) -> int:
        return self.networks[0].n_labels

    @property
    def graph(self) -> LabelGraph:
        return self.networks[0].graph

    @property
    def shortlist(self) -> int:
        return self.networks[0].shortlist

    def with_members(self, make: Callable[[StackedLaMP], StackedLaMP]) -> Ensemble:
        """An ensemble of what `make` returns for each member, in evaluation mode."""
        return Ensemble(make(member) for member in self.networks).eval()

    def forward(
        self,
        batch: Any,
        label_input: LabelInput = NOTHING_KNOWN,
        return_attention: bool = False,
        final_stage_only: bool = False,
    ) -> Output:
        """As `LaMP.forward`."""
        if len(self.members) > 1 and 0 < self.shortlist < self.n_labels and label_input.stacked_BL is None:
            label_input = replace(label_input, forced_BL=self._common_shortlist(batch))
        outputs = [member(batch, label_input, return_attention, final_stage_only) for member in self.members]
        first = outputs[0]
        if len(outputs) == 1:
            return cast(Output, first)
        return Output(
            stages=_mean([output.stages for output in outputs]),
            initial=None if first.initial is None else torch.stack([o.initial for o in outputs]).mean(0),
            to_input=_mean([output.to_input for output in outputs]),
            to_labels=_mean([output.to_labels for output in outputs]),
            shortlist=first.shortlist,
        )

    def _common_shortlist(self, batch: Any) -> Tensor:
        """Which labels exchange messages in all members, bool (B, L); without base logits, by a pass through each."""
        initial = [member(batch, final_stage_only=True).initial for member in self.networks]
        best_BM = torch.stack(initial).mean(0).topk(self.shortlist, dim=1).indices
        return torch.zeros_like(initial[0], dtype=torch.bool).scatter_(1, best_BM, True)


def _mean(of_members: Sequence[Any]) -> Any:
    """One list of tensors per member -> the mean of the first tensors, of the second, ...; None stays None."""
    if of_members[0] is None:
        return None
    return [torch.stack(list(same)).mean(0) for same in zip(*of_members, strict=True)]
